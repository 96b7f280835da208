// The token of the link that lace workbench prints: kept by this tab, and not left in the address.
// @ts-check

const NAME = "lace-token";
/** @type {string|null} */
let held = null;

/** Take the token out of the address; true if it is another one than before. */
export function takeToken() {
  const parts = new URLSearchParams(location.hash.slice(1));
  const given = parts.get("token");
  if (given === null) return false;
  parts.delete("token");
  const rest = String(parts);
  history.replaceState(history.state, "", `${location.pathname}${rest && `#${rest}`}`);
  const other = given !== held;
  held = given;
  try {
    sessionStorage.setItem(NAME, given); // for a reload; other ports cannot read it
  } catch { /* a frame that keeps nothing is opened anew by its link */ }
  return other;
}

/** The token; empty where no link brought one. */
export function token() {
  return held ?? "";
}

try {
  held = sessionStorage.getItem(NAME);
} catch { /* as above */ }
takeToken();
