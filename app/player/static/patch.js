/** Changing elements only where they differ: from one event to the next nearly everything stays as it is. */

/**
 * Remember `value` under `name`, and act only if it is new.
 * @template {string|number|boolean|null} Value
 * @param {{known: Record<string, string|number|boolean|null>}} of whose memory it is
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
 * Give an element this attribute, or take it away where the value is null.
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
 * Let `child` be its parent's child number `at`. One that stands there is not moved: that would take the keyboard away.
 * @param {Element} parent
 * @param {Element} child
 * @param {number} at
 */
export function stand(parent, child, at) {
  const there = parent.children[at] ?? null;
  if (there !== child) parent.insertBefore(child, there);
}

/**
 * Give an element this class, and leave it those that are not its view's to decide: that it is lit, or pointed at.
 * @param {Element} element
 * @param {string} name
 */
export function setClass(element, name) {
  const others = ["lit", "pointed"].filter((each) => element.classList.contains(each));
  const wanted = [name, ...others].join(" ");
  if (element.getAttribute("class") !== wanted) element.setAttribute("class", wanted);
}
