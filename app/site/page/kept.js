/**
 * What a visitor has locked: kept by the course's platform if a page around this one reports to it, else on this device.
 *
 * @typedef {string|number|string[]} Given
 * @typedef {{given: Given, right: boolean, at: string}} Answer `at`: the day
 * @typedef {Record<string, Partial<Record<"predict"|"check", Answer>>>} Kept by the lessons' names
 * @typedef {Pick<Storage, "getItem"|"setItem">} Keeper
 */

const KEY = "specdec-course";
let unkept = "{}"; // where nothing can be kept, as in a sandboxed frame, answers last as long as the page
/** @type {Keeper} */
const page = { getItem: () => unkept, setItem: (_, text) => (unkept = text) };

/** @returns {Keeper|undefined} the keeper of the page around this one */
export function platform() {
  try {
    return /** @type {Window & {specdecKeeper?: Keeper}} */ (window.parent).specdecKeeper;
  } catch {
    return undefined; // the page around it is another site's
  }
}

function keeper() {
  try {
    return platform() ?? window.localStorage;
  } catch {
    return page;
  }
}

/** Where answers are kept. @returns {"platform"|"nothing"|"apart"|"browser"} `apart`: in this browser, opened from disk */
export function where() {
  if (platform()) return "platform";
  if (keeper() === page) return "nothing";
  return location.protocol === "file:" ? "apart" : "browser";
}

/** What was kept; nothing, where that cannot be read. @param {string|null} [text] @returns {Kept} */
export function read(text = keeper().getItem(KEY)) {
  try {
    const found = JSON.parse(text ?? "{}");
    return found !== null && typeof found === "object" && !Array.isArray(found) ? found : {};
  } catch {
    return {};
  }
}

/** @param {Kept} kept */
export function write(kept) {
  const text = JSON.stringify(kept);
  try {
    keeper().setItem(KEY, text);
  } catch {
    page.setItem(KEY, text); // the device is full
  }
}
