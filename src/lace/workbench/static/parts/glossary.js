// The words of the protocol, each with one sentence that a stranger understands.
// @ts-check
import { html } from "../vendor/preact.js";
import * as state from "../state.js";

/** @type {[string, string][]} */
export const WORDS = [
  ["record",
    "Bytes that never change and are named by their hash; most are signed and have a place."],
  ["rules", "What a side says belongs: which records it would give and which it would take."],
  ["status", "How a record stands on this side: whether it is here, on its way, or heard of only."],
  ["have", "Here: it was checked and is stored on this side."],
  ["operand", "One side’s rules as the exchange takes them, with who brought them."],
  ["plan", "What both sides compute from the two operands; they go on only if it is the same."],
  ["setup", "The phase in which both sides send their rules."],
  ["hello", "The phase in which both sides say and prove who they are."],
  ["advertise",
    "The phase in which a side says which records it could give, by hash and some fields."],
  ["advertises",
    "Says which records it could give: their hashes and some fields, not their content."],
  ["advertised", "Heard of from the other side, by hash and some fields, and not here."],
  ["ask", "The phase in which a side asks for lists that it could not tell from a summary."],
  ["answer", "The phase in which those lists are given."],
  ["request", "The phase in which a side asks for the records that it lacks and its rules want."],
  ["requestable", "Heard of, not here, and wanted by this side’s own rules and the other’s."],
  ["in flight", "Asked for, on its way, and not yet checked and stored."],
  ["transfer", "The phase in which the records themselves cross."],
  ["phase", "A part of a loop; both sides end it before the next one begins."],
  ["loop", "One round of advertise, request and transfer; new records may make others belong."],
  ["partition",
    "A part of all that a side could give, summed up so that equal parts are not listed."],
  ["partitions",
    "Parts of all that a side could give, summed up so that equal parts are not listed."],
  ["grant", "A record by which an authority makes somebody a member."],
  ["hidden", "Here, but not in the view that the other side’s rules are evaluated on."],
  ["rejected", "Came, and was not stored: its bytes, hash or signature are wrong."],
  ["sendable", "Here, and both sides’ rules let it be sent to the other side."],
  ["fixed point", "Nothing that either side may ask for is missing: the exchange is done."],
  ["tick", "The time that rules see; it moves between loops only."],
];
const MEANING = new Map(WORDS);
/** Everyday words, which are explained in tables alone. */
const EVERYDAY = ["status", "have"];
const LONGEST_FIRST = [...MEANING.keys()].filter((word) => !EVERYDAY.includes(word))
  .sort((a, b) => b.length - a.length);
// Not within a name such as grant-bob.
const KNOWN = new RegExp(`(?<![\\w-])(${LONGEST_FIRST.join("|")})(?![\\w-])`, "gi");

/** A text whose words of the protocol say what they mean when they are pointed at, and lead to the
 * list of words. By keyboard the first one is a stop, unless the text stands in a row of many.
 * @param {string} text @param {boolean} [stop] */
export function glossed(text, stop = true) {
  return text.split(KNOWN).map((part, index) => (index % 2 === 0 ? part
    : term(part, stop && index === 1)));
}

/** One word that says what it means; whatever is no word of the protocol stays as it is.
 * @param {string} text @param {boolean} [stop] */
export function term(text, stop = true) {
  const word = text.toLowerCase();
  const meaning = MEANING.get(word);
  if (meaning === undefined) return text;
  const open = () => {
    state.word.value = word;
    state.help.value = true;
  };
  return html`<button type="button" class="term" title=${meaning} tabindex=${stop ? 0 : -1}
    aria-haspopup="dialog" onClick=${open}>${text}</button>`;
}
