/** The tree that is being built, its mask and its meters. Everything it says and every number comes with the data. */

/**
 * @typedef {number[]} Path from the root, a child's number on each level
 * @typedef {{row: number, column: number}} Place
 * @typedef {Place & {path: Path, parent: number|null, label: string, chance: string, sentence: string}} TreeNode the root has no parent
 * @typedef {Place & {path: Path, parent: number, label: string}} Slot where a guess can be added
 * @typedef {{title: string, note: string, meters: {label: string, value: number, shown: string, look: string}[]}} Part
 * @typedef {{nodes: TreeNode[], slots: Slot[], rows: number, columns: number, mask: boolean[][]|null, positions: number[],
 *   worth: Part[], words: Record<string, string>, spent: string, most: number}} Data without a mask the tree is only shown
 * @typedef {{root: Element, path: Path|null, send: (act: "add"|"remove", path: Path) => void}} Own what a mounted picture keeps
 */

/** @type {WeakMap<Element, Own>} */
const mounted = new WeakMap();
const SVG = "http://www.w3.org/2000/svg";

/** @param {{data: Data, parentElement: Element, setTriggerValue: (name: string, value: object) => void}} given */
export default function ({ data, parentElement, setTriggerValue }) {
  let own = mounted.get(parentElement);
  if (!own) {
    const root = /** @type {Element} */ (parentElement.querySelector(".builder"));
    own = { root, path: null, send: () => {} };
    mounted.set(parentElement, own);
  }
  own.send = (act, path) => setTriggerValue("act", { do: act, path, at: Date.now() });
  draw(own, data);
  return () => mounted.delete(parentElement);
}

/**
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, string>} given
 * @param {...(Node|string)} inside
 */
function el(tag, given = {}, ...inside) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(given)) made.setAttribute(name, value);
  made.append(...inside);
  return made;
}

/** @param {Path|null} one @param {Path|null} other */
const same = (one, other) => one !== null && other !== null && one.join() === other.join();

/** @param {Own} own @param {Data} data */
function draw(own, data) {
  const page = /** @type {Document|ShadowRoot} */ (own.root.getRootNode());
  const focused = /** @type {HTMLElement|null} */ (page.activeElement)?.dataset?.path;
  const words = data.words;
  const chosen = data.nodes.findIndex((node) => same(node.path, own.path));
  if (chosen < 0) own.path = null;

  /** @param {Path|null} path */
  const pick = (path) => {
    own.path = path;
    draw(own, data);
  };
  /** @param {TreeNode} node */
  const remove = (node) => {
    if (!node.path.length) return;
    own.path = node.path.slice(0, -1);
    own.send("remove", node.path);
  };
  if (!data.mask) {
    own.root.replaceChildren(treeOf(data, -1, null, () => {}, () => {}));
    return;
  }
  const tree = treeOf(data, chosen, pick, remove, (slot) => {
    own.path = slot.path;
    own.send("add", slot.path);
  });
  const sentence = el("p", { class: "told", "aria-live": "polite" }, chosen < 0 ? words.choose : data.nodes[chosen].sentence);
  const left = el("section", { class: "part", "aria-label": words.tree },
    el("h3", {}, words.tree, " ", el("span", { class: "spent" }, data.spent)), tree,
    el("p", { class: "note" }, words.chance_help), sentence);
  left.style.setProperty("--most", String(data.most));
  if (chosen > 0) {
    const away = el("button", { type: "button", class: "away" }, words.remove.replace("{number}", String(chosen)));
    away.addEventListener("click", () => remove(data.nodes[chosen]));
    left.append(away);
  }
  const right = el("section", { class: "part", "aria-label": words.mask },
    el("h3", {}, words.mask), maskOf(data, data.mask, chosen, pick), el("p", { class: "note" }, words.mask_help));
  own.root.replaceChildren(
    el("div", { class: "sides" }, left, right),
    worthOf(data),
  );
  const wanted = focused ?? null;
  /** @type {HTMLElement|null} */
  const again = wanted === null ? null
    : own.root.querySelector(`[data-path="${wanted}"]`)
      ?? own.root.querySelector(`[data-path="${(own.path ?? []).join(".")}"]`);
  again?.focus({ preventScroll: true });
}

/**
 * @param {Data} data
 * @param {number} chosen
 * @param {((path: Path|null) => void)|null} pick null: nothing can be done with the tree
 * @param {(node: TreeNode) => void} remove
 * @param {(slot: Slot) => void} add
 */
function treeOf(data, chosen, pick, remove, add) {
  const line = data.mask?.[chosen] ?? [];
  const places = el("div", { class: "places", "aria-hidden": "true" });
  for (let at = 0; at < data.columns; at += 1) places.append(el("span", {}, `+${at}`));
  const field = el("div", { class: "field" });
  field.style.setProperty("--columns", String(data.columns));
  field.style.setProperty("--rows", String(data.rows));
  const lines = document.createElementNS(SVG, "svg");
  lines.setAttribute("viewBox", `0 0 ${data.columns} ${data.rows}`);
  lines.setAttribute("preserveAspectRatio", "none");
  lines.setAttribute("aria-hidden", "true");
  field.append(lines);
  /** @param {Place} place @param {number} parent @param {string} look */
  const edge = (place, parent, look) => {
    const from = data.nodes[parent];
    const path = document.createElementNS(SVG, "path");
    const [x, y, to] = [from.column + 0.45, from.row + 0.5, place.row + 0.5];
    path.setAttribute("d", y === to ? `M${x} ${y} H${place.column + 0.1}`
      : `M${from.column + 0.9} ${y} V${to} H${place.column + 0.1}`);
    path.setAttribute("class", look);
    lines.append(path);
  };
  data.slots.forEach((slot) => edge(slot, slot.parent, "maybe"));
  data.nodes.forEach((node, at) => node.parent !== null && edge(node, node.parent, line[at] ? "lit" : ""));
  data.nodes.forEach((node, at) => {
    const look = at === chosen ? "here" : line[at] ? "above" : chosen >= 0 ? "out" : "";
    const name = at ? String(at) : "●";
    if (!pick) {
      field.append(put(el("span", { class: `node ${at ? "" : "root"}`, role: "img", "aria-label": node.label },
        el("b", {}, at ? "?" : name)), node));
      return;
    }
    const made = el("button", {
      type: "button", class: `node ${at ? "" : "root"} ${look}`, "aria-label": node.label,
      "aria-pressed": String(at === chosen), "data-path": node.path.join("."), title: node.label,
    }, el("b", {}, name), el("span", {}, node.chance));
    made.addEventListener("click", () => pick(at === chosen ? null : node.path));
    made.addEventListener("keydown", (event) => {
      if (event.key === "Delete" || event.key === "Backspace") {
        event.preventDefault();
        remove(node);
      }
    });
    field.append(put(made, node));
  });
  data.slots.forEach((slot) => {
    const made = el("button", {
      type: "button", class: "slot", "aria-label": slot.label, title: slot.label, "data-path": slot.path.join("."),
    }, "+");
    made.addEventListener("click", () => add(slot));
    field.append(put(made, slot));
  });
  return el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": data.words.tree }, places, field);
}

/** @param {HTMLElement} made @param {Place} place */
function put(made, place) {
  made.style.setProperty("--column", String(place.column));
  made.style.setProperty("--row", String(place.row));
  return made;
}

/**
 * @param {Data} data
 * @param {boolean[][]} mask
 * @param {number} chosen
 * @param {(path: Path|null) => void} pick
 */
function maskOf(data, mask, chosen, pick) {
  const { words, positions } = data;
  const line = mask[chosen] ?? [];
  /** @param {number} at */
  const name = (at) => (at ? String(at) : "●");
  const head = el("tr", {}, el("td", {}),
    ...mask.map((_, at) => {
      const cell = el("th", { scope: "col", class: line[at] ? "lit" : "" }, name(at));
      if (!at) cell.setAttribute("aria-label", words.root);
      return cell;
    }),
    el("th", { scope: "col", class: "position" }, words.position));
  const rows = mask.map((row, at) => {
    const first = el("th", { scope: "row" }, name(at));
    const made = el("tr", { class: at === chosen ? "here" : "" }, first);
    if (!at) first.setAttribute("aria-label", words.root);
    row.forEach((seen, column) => {
      const cell = el("td", { class: `${seen ? "seen" : ""} ${line[column] ? "lit" : ""}` }, seen ? "●" : "·");
      cell.setAttribute("aria-label", seen ? words.sees : words.blind);
      made.append(cell);
    });
    made.append(el("td", { class: "position" }, `+${positions[at]}`));
    made.addEventListener("click", () => pick(at === chosen ? null : data.nodes[at].path));
    return made;
  });
  return el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": words.mask },
    el("table", {}, el("thead", {}, head), el("tbody", {}, ...rows)));
}

/** @param {Data} data */
function worthOf(data) {
  const top = Math.max(...data.worth.flatMap((part) => part.meters.map((meter) => meter.value)));
  const worth = el("section", { class: "worth", "aria-label": data.words.tokens }, el("h3", {}, data.words.tokens));
  for (const part of data.worth) {
    const list = el("dl", { class: "meters" });
    for (const meter of part.meters) {
      const bar = el("span", { class: `bar ${meter.look}` });
      bar.style.setProperty("--share", String(meter.value / top));
      list.append(el("div", { class: "meter" },
        el("dt", {}, meter.label), el("dd", {}, el("span", { class: "track" }, bar), el("b", {}, meter.shown))));
    }
    worth.append(el("h4", {}, part.title), list, el("p", { class: "note" }, part.note));
  }
  return worth;
}
