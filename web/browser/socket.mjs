// A WebSocket as a stream of bytes, for the engine: what waits is bounded in both directions.

const LARGEST_MESSAGE = 4 * 1024 * 1024;
const MOST_WAITING = 64 * 1024 * 1024; // that came and was not read
const MOST_UNSENT = 1 << 18;
const POLL_MS = 5;
const LINGER_MS = 1000;
const IN_ORDER = new Set([1000, 1001, 1005]);

class Socket {
  constructor(socket) {
    this.socket = socket;
    this.chunks = [];
    this.waiting = 0;
    this.ended = undefined; // no bytes at an orderly end, a text if it broke
    this.wake = () => {};
    socket.addEventListener("message", (event) => this.take(event.data));
    this.closed = new Promise((resolve) => { socket.addEventListener("close", resolve); });
    socket.addEventListener("close", (event) => {
      const why = event.reason || `the connection was lost (${event.code})`;
      this.end(IN_ORDER.has(event.code) ? new Uint8Array() : why);
    });
  }

  take(data) {
    if (typeof data === "string") return this.refuse("the peer sent a text message");
    if (data.byteLength > LARGEST_MESSAGE) return this.refuse("a message is too large");
    this.waiting += data.byteLength;
    if (this.waiting > MOST_WAITING) return this.refuse("the peer sends more than is read");
    if (data.byteLength) this.chunks.push(new Uint8Array(data));
    this.wake();
    return undefined;
  }

  refuse(why) {
    this.end(why);
    this.chunks = [];
    this.abort();
  }

  end(why) {
    if (this.ended === undefined) this.ended = why;
    this.wake();
  }

  /** The next bytes, none at the end, or a text that says why it broke. */
  async read() {
    while (!this.chunks.length) {
      if (this.ended !== undefined) return this.ended;
      await new Promise((resolve) => { this.wake = resolve; });
    }
    const chunk = this.chunks.shift();
    this.waiting -= chunk.length;
    return chunk;
  }

  /** Send bytes; return a text if it broke. Waits while too much is on its way. */
  async write(bytes) {
    if (this.socket.readyState !== WebSocket.OPEN) return String(this.ended || "it was closed");
    this.socket.send(bytes);
    while (this.socket.bufferedAmount > MOST_UNSENT && this.socket.readyState === WebSocket.OPEN) {
      await new Promise((resolve) => { setTimeout(resolve, POLL_MS); });
    }
    return "";
  }

  /** Close in order: a browser sends what waits first. */
  async finish() {
    this.abort();
    const late = new Promise((resolve) => { setTimeout(resolve, LINGER_MS); });
    await Promise.race([this.closed, late]);
  }

  abort() {
    this.socket.close(1000);
  }
}

/** Open a connection; return it, or a text that says why not. */
export function open(url, seconds) {
  return new Promise((resolve) => {
    const socket = new WebSocket(url);
    socket.binaryType = "arraybuffer";
    const late = setTimeout(() => {
      socket.close();
      resolve("no answer in time");
    }, seconds * 1000);
    const fail = () => {
      clearTimeout(late);
      resolve("nobody answers there, or does not let this page in");
    };
    socket.addEventListener("error", fail, { once: true });
    socket.addEventListener("open", () => {
      clearTimeout(late);
      socket.removeEventListener("error", fail);
      resolve(new Socket(socket));
    }, { once: true });
  });
}

/** Where this page comes from, as a server is told. */
export function origin() {
  return self.location.origin;
}
