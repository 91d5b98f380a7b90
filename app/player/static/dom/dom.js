/**
 * Building elements. Text from models and visitors enters the page here and nowhere else, and only as text nodes.
 */

const SVG = "http://www.w3.org/2000/svg";
const MARGIN = 8; // px between the screen's edge and what is laid over the page

/**
 * Make an element. `attributes` take strings and numbers; `null`, `undefined` and `false` leave an attribute out.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, string|number|boolean|null|undefined>} [attributes]
 * @param {...(Node|string|null|undefined)} children strings become text nodes
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children) if (child !== null && child !== undefined) node.append(child);
  return node;
}

/**
 * Make a part of a drawing.
 * @template {keyof SVGElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, string>} attributes
 * @param {...SVGElement} children
 * @returns {SVGElementTagNameMap[Tag]}
 */
export function svg(tag, attributes, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/**
 * A small drawn icon; text symbols differ too much between fonts.
 * @param {string} path the `d` of one path in a 16 × 16 box
 * @returns {SVGElement}
 */
export function icon(path) {
  return svg("svg", { viewBox: "0 0 16 16", class: "icon", "aria-hidden": "true" }, svg("path", { d: path }));
}

/**
 * Put `text` into `node` unless it is already there: an unchanged live region stays silent.
 * @param {Node} node
 * @param {string} text
 */
export function setText(node, text) {
  if (node.textContent === text) return;
  const { firstChild } = node;
  if (text && firstChild instanceof Text && !firstChild.nextSibling)
    firstChild.data = text; // a new text node is laid out anew
  else node.textContent = text;
}

/**
 * Say something in a part that is there only while it says something.
 * @param {HTMLElement} part
 * @param {string} text
 */
export function setNote(part, text) {
  setText(part, text);
  part.hidden = !text;
}

const SPECIAL = /[\n\t\u0000-\u0008\u000b-\u001f\u007f]/;
const PIECES = /\n|\t|[\u0000-\u0008\u000b-\u001f\u007f]|[^\n\t\u0000-\u0008\u000b-\u001f\u007f]+/g;

/**
 * Append a token's text so that `textContent` stays exactly the text; the marks for line breaks, tabs and control
 * characters are drawn by the style sheet.
 * @param {HTMLElement} into
 * @param {string} text
 */
export function appendToken(into, text) {
  if (/^ +$/.test(text)) into.classList.add("blank");
  if (!SPECIAL.test(text)) {
    into.append(text);
    return;
  }
  for (const piece of text.match(PIECES) ?? []) {
    if (!SPECIAL.test(piece)) into.append(piece);
    else if (piece === "\n") into.append(el("span", { class: "nl" }, piece));
    else if (piece === "\t") into.append(el("span", { class: "tabstop" }, piece));
    else into.append(el("span", { class: "ctl" }, piece));
  }
}

/**
 * The element that an event is about: views only listen to elements of their own.
 * @param {Event} event
 * @returns {HTMLElement}
 */
export function elementOf(event) {
  return /** @type {HTMLElement} */ (event.target);
}

/**
 * The parts that are there; `el` leaves out the others by itself.
 * @template Part
 * @param {(Part|null)[]} parts
 * @returns {Part[]}
 */
export function present(parts) {
  return /** @type {Part[]} */ (parts.filter(Boolean));
}

/**
 * A run starts below the form that started it: scroll it into view, no further than needed.
 * @param {Element} part
 */
export function bringIntoView(part) {
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  requestAnimationFrame(() => part.scrollIntoView({ block: "nearest", behavior: calm ? "auto" : "smooth" }));
}

/**
 * Move what is laid over the page sideways, so that all of it is on the screen.
 * @param {HTMLElement} part
 */
export function keepOnScreen(part) {
  part.style.translate = "none";
  const { left, right } = part.getBoundingClientRect();
  const over = Math.max(0, right + MARGIN - document.documentElement.clientWidth);
  part.style.translate = `${Math.round(Math.max(MARGIN - left, -over))}px`;
}

/**
 * Whether the page is dark around `node`; a page that allows both schemes is as the system.
 * @param {Element} node
 */
export function isDark(node) {
  const schemes = getComputedStyle(node).colorScheme;
  return (
    schemes.includes("dark") &&
    (!schemes.includes("light") || matchMedia("(prefers-color-scheme: dark)").matches)
  );
}
