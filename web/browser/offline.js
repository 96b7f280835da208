// A service worker that lets a page with Lace be loaded again without a network.
//
// A browser lets it answer for its own folder and below. Where Lace lies deeper than the page, put
// a file beside the page that says: self.lace = "./lace/"; importScripts("./lace/offline.js");
const FOLDER = new URL(self.lace ?? "./", self.location).href;
const FILES = ["lace.mjs"]; // web/bundle.py writes all that a page needs, and what their bytes are
const VERSION = "";
const ENGINE = `lace-engine-${VERSION}`;
const PAGES = "lace-pages";
const MOST_PAGES = 200;

self.addEventListener("install", (event) => {
  const keep = async () => {
    const cache = await caches.open(ENGINE);
    await cache.addAll(FILES.map((name) => new Request(`${FOLDER}${name}`, { cache: "reload" })));
    await self.skipWaiting();
  };
  event.waitUntil(keep());
});

self.addEventListener("activate", (event) => {
  const tidy = async () => {
    const names = (await caches.keys()).filter((name) => name.startsWith("lace-engine-"));
    await Promise.all(names.filter((name) => name !== ENGINE).map((name) => caches.delete(name)));
    await self.clients.claim();
  };
  event.waitUntil(tidy());
});

/** Keep what a page was made of before this worker answered for it. */
self.addEventListener("message", (event) => {
  if (!Array.isArray(event.data?.keep)) return;
  const keep = async () => {
    await Promise.all(event.data.keep.slice(0, MOST_PAGES).map(async (address) => {
      if (!isEngine(address)) await fetched(new Request(address)).catch(() => {});
    }));
    event.ports[0]?.postMessage("kept");
  };
  event.waitUntil(keep());
});

self.addEventListener("fetch", (event) => {
  const { request } = event;
  if (request.method !== "GET" || new URL(request.url).origin !== self.location.origin) return;
  event.respondWith(isEngine(request.url) ? engine(request) : page(request));
});

const isEngine = (address) => (
  address.startsWith(FOLDER) && FILES.includes(address.slice(FOLDER.length)));

/** The engine's own files change with their version alone. */
async function engine(request) {
  return await caches.match(request, { cacheName: ENGINE }) ?? fetch(request);
}

/** Everything else is as new as the network allows. */
async function page(request) {
  try {
    return await fetched(request);
  } catch (error) {
    const kept = await caches.match(request, { cacheName: PAGES, ignoreSearch: true });
    if (kept) return kept;
    throw error;
  }
}

async function fetched(request) {
  const response = await fetch(request);
  if (response.ok && response.type === "basic") {
    const cache = await caches.open(PAGES);
    const known = await cache.keys();
    await Promise.all(known.slice(0, -MOST_PAGES).map((old) => cache.delete(old)));
    await cache.put(request, response.clone());
  }
  return response;
}
