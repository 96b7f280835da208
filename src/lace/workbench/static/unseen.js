// What a stranger's text may do to the text around it: nothing.
// @ts-check

// Marks of direction and of no width, controls, and tags: what turns or hides other letters.
const UNSEEN = new RegExp("[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00ad\\u061c\\u180e"
  + "\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb"
  + "\\u{e0000}-\\u{e007f}]", "gu");
/** What is run, edited or shown as exact bytes stays as it is. */
const EXACT = new Set(["toml", "rules", "shared", "expose", "exposed", "checked", "lines"]);

/** Show what cannot be seen as dots, as the command line does; in all that is in an object.
 * @param {any} value */
export function showUnseen(value) {
  for (const key of Object.keys(value)) {
    const inner = value[key];
    if (typeof inner === "string") {
      if (!EXACT.has(key) && inner.search(UNSEEN) >= 0) value[key] = inner.replace(UNSEEN, "·");
    } else if (inner !== null && typeof inner === "object" && !EXACT.has(key)) showUnseen(inner);
  }
}
