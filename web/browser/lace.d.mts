/** What is wrong: with a stable code (see docs/reference/codes.md), and what to do about it. */
export class LaceError extends Error {
  readonly name: "LaceError";
  /** Stable, such as "input.type"; null for a fault of Lace itself. */
  readonly code: string | null;
  readonly hint: string;
}

/** A record: its bytes, and what they say. */
export class LaceRecord {
  private constructor();
  /** What identifies it: the hash of its bytes. */
  readonly hash: string;
  /** B for bytes alone, P for a record with a place, S for a signed one. */
  readonly type: "B" | "P" | "S";
  /** Where it belongs, as //group//app//name; null for bytes alone. */
  readonly place: string | null;
  /** When it was made, by its own word: seconds and nanoseconds of atomic time. */
  readonly tai: string | null;
  /** The same as a date. */
  readonly date: Date | null;
  /** The verifier of who signed it. */
  readonly author: string | null;
  readonly fields: Readonly<Record<string, string>>;
  /** The whole record; give these bytes to any other lace. */
  readonly bytes: Uint8Array;
  readonly data: Uint8Array;
  /** The data as text. */
  readonly text: string;
}

/** What a new record says; it is signed with the secret of the lace, if that has one. */
export interface NewRecord {
  /** //group//app//name */
  place: string;
  fields?: Readonly<Record<string, string | readonly string[]>>;
  data?: string | Uint8Array;
  /** By default the present moment. */
  tai?: string;
}

/** Something that becomes a record: its bytes, itself, or what a new one says. */
export type Storable = Uint8Array | LaceRecord | NewRecord;

// Made from told.py by make docs. Do not edit.
/** What became of one record. */
export interface Outcome {
  readonly status: "accepted" | "duplicate" | "rejected" | "refused" | "not-available" | "deferred";
  readonly hash: string | null;
  readonly code: string | null;
  readonly detail: string;
}

/** What one round of an exchange did; records by their hashes. */
export interface InterlaceResult {
  readonly received: readonly string[];
  readonly sent: readonly string[];
  readonly rejected: readonly string[];
  /** How many records the other side offers, here already or not. */
  readonly offered: number;
  /** Whom the other side proved to be. */
  readonly peer: string | null;
  /** How many turns of offer, request and transfer it took. */
  readonly loops: number;
  /** Whether nothing was left to exchange at the end. */
  readonly fixed_point: boolean;
}

/** A record was stored, or was there already. */
export interface Kept {
  readonly event: "saved" | "duplicate";
  readonly hash: string;
}

/** A record that came is not valid. */
export interface Rejected {
  readonly event: "rejected";
  readonly hash: string;
  readonly code: string;
  readonly detail: string;
}

/** Nothing is left to say, for now. */
export interface FixedPoint {
  readonly event: "fixed-point";
  readonly result: InterlaceResult;
}

/** The exchange has ended. */
export interface Closed {
  readonly event: "closed";
  readonly reason: string;
  readonly result: InterlaceResult;
}

/** The exchange was broken off. */
export interface Aborted {
  readonly event: "aborted";
  readonly code: string;
  readonly detail: string;
  readonly blame: string;
  readonly result: InterlaceResult;
}

/** The other side is not there; it is called again after some seconds. */
export interface Retry {
  readonly event: "retry";
  readonly seconds: number;
  readonly why: string;
}

/** What happens in an exchange. */
export type InterlaceEvent =
  Kept | Rejected | FixedPoint | Closed | Aborted | Retry;
// Until here.

/** What belongs; made by selector() and room(). */
export class Selector {
  private constructor();
  private readonly plain: unknown;
}

/** What belongs: a place, a prefix, a hash address, or rules. */
export type Selects = Selector | string;

/** A lace at an address. */
export class Peer {
  private constructor();
  readonly address: string;
  readonly expected: string | null;
}

/** A lace that this browser keeps. */
export class Lace {
  protected constructor();
  readonly name: string;
  /** What others know its secret by; null without one. */
  readonly verifier: string | null;
  /** A lace at an address; it is called when something is done with it. */
  static connect_websocket(
    address: string,
    options?: { expected?: string | null; secret?: string | null },
  ): Promise<Peer>;
  static open(name: string, options?: OpenOptions): Promise<IndexedDbLace>;
  /** A new secret, which nobody else has. */
  static new_secret(): Promise<string>;
  /** The secret of a demo key, which everybody who knows the words has. */
  static demo_secret(words: string): Promise<string>;
  /** What others know a secret by. */
  static verifier(secret: string): Promise<string>;
  /** Whether bytes are a record, and if not, why. */
  static validate(bytes: Uint8Array): Promise<Outcome & { readonly record?: LaceRecord }>;
  store(records: readonly Storable[]): Promise<Outcome[]>;
  list(selector: Selects): Promise<LaceRecord[]>;
  get(address: string): Promise<LaceRecord | null>;
  forget(selector: Selects): Promise<number>;
  sync(other: Lace | Peer | string, selector: Selects): Promise<InterlaceResult>;
  open_interlace(other: Lace | Peer | string, selector: Selects): Promise<OpenInterlace>;
  for_each(selector: Selects): AsyncIterableIterator<LaceRecord>;
  subscribe(
    selector: Selects, hear: (record: LaceRecord) => void, fail?: (error: LaceError) => void,
  ): () => void;
  /** Whether this tab writes the lace; otherwise it follows the tab that does. */
  leads(): Promise<boolean>;
  /** Close it in this tab. */
  close(): Promise<void>;
}

export interface OpenOptions {
  /** Signs what is stored, and is proven to peers. */
  secret?: string;
  /** Records to begin with. */
  records?: readonly Storable[];
}

/** A lace in IndexedDB, one entry a record. */
export class IndexedDbLace extends Lace {
  static open(name: string, options?: OpenOptions): Promise<IndexedDbLace>;
}

/** An exchange that stays: iterate over its events, or ask for the next one. */
export class OpenInterlace implements AsyncIterable<InterlaceEvent> {
  private constructor();
  next_event(): Promise<InterlaceEvent | null>;
  /** Takes events up to the next fixed point, which nobody else then gets; rejects if the exchange
   * ends before. */
  fixed_point(): Promise<InterlaceResult>;
  [Symbol.asyncIterator](): AsyncIterableIterator<InterlaceEvent>;
  close(): Promise<void>;
}

/** Say what belongs, by //group//app//name, by //group//app//, by a hash address, or by rules. */
export function selector(rules: string): Selector;
/** The choices of a room; all who meet there make the same ones. */
export interface RoomChoices {
  /** The verifier whose word on membership is final. */
  readonly authority: string;
  /** Each role with the sub-apps it writes in; "*" is all of them, an empty list is none. */
  readonly roles?: Readonly<Record<string, readonly string[]>>;
  /** Whether what a removed member wrote before goes with them, or stays. */
  readonly removed?: "goes" | "stays";
  /** Whether members write at any place, or only under names that their grant gives them. */
  readonly places?: "shared" | "own";
  /** Whose rules see what belongs here. */
  readonly reads?: "members" | "anyone";
  /** How far the right to admit can be handed on; 0 leaves it to the authority alone. */
  readonly delegation?: number;
}

/** The rules of a room: what its members signed where their roles let them, and their grants. */
export function room(prefix: string, choices: RoomChoices): Selector;
export function store(end: Lace | Peer, records: readonly Storable[]): Promise<Outcome[]>;
export function list(end: Lace | Peer, selector: Selects): Promise<LaceRecord[]>;
export function get(end: Lace | Peer, address: string): Promise<LaceRecord | null>;
export function forget(end: Lace, selector: Selects): Promise<number>;
/** Interlace until nothing is left to say. */
export function sync(
  left: Lace, right: Lace | Peer | string, selector: Selects,
): Promise<InterlaceResult>;
/** Interlace and stay: what either side stores reaches the other if it belongs. */
export function open_interlace(
  left: Lace, right: Lace | Peer | string, selector: Selects,
): Promise<OpenInterlace>;
/** Each record that belongs, then each one that comes to be; every one once. */
export function for_each(end: Lace, selector: Selects): AsyncIterableIterator<LaceRecord>;
/** Be told of each record that belongs, now and later; call what is returned to end it. */
export function subscribe(
  end: Lace, selector: Selects, hear: (record: LaceRecord) => void,
  fail?: (error: LaceError) => void,
): () => void;
/** Let this page be loaded again without a network. */
export function offline(script?: string | URL): Promise<void>;
