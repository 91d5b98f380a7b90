/** Changing elements only where they differ: from one event to the next nearly everything stays as it is. */

/**
 * Remember `value` under `name`, and act only if it is new.
 * @template {string|number|boolean|null} Value
 * @param {{known: Record<string, string|number|boolean|null>}} of the owner of the remembered values
 * @param {string} name
 * @param {Value} value
 * @param {(value: Value) => void} action
 */
export function write(of, name, value, action) {
  if (of.known[name] === value) return;
  of.known[name] = value;
  action(value);
}

/**
 * Set an element's attribute, or remove it if the value is null.
 * @param {Element} element
 * @param {string} name
 * @param {string|number|boolean|null} value
 */
export function attribute(element, name, value) {
  const wanted = value === null ? null : String(value);
  if (element.getAttribute(name) === wanted) return;
  if (wanted === null) element.removeAttribute(name);
  else element.setAttribute(name, wanted);
}

/**
 * Make `child` its parent's child number `at`. One already there is not moved: that would lose the focus.
 * @param {Element} parent
 * @param {Element} child
 * @param {number} at
 */
export function insertAt(parent, child, at) {
  const there = parent.children[at] ?? null;
  if (there !== child) parent.insertBefore(child, there);
}

/**
 * Give an element this class, and keep those that its view does not decide: that it is highlighted, or pointed at.
 * @param {Element} element
 * @param {string} name
 */
export function setClass(element, name) {
  const others = ["lit", "pointed"].filter((each) => element.classList.contains(each));
  const wanted = [name, ...others].join(" ");
  if (element.getAttribute("class") !== wanted) element.setAttribute("class", wanted);
}
