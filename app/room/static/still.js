// A lesson's picture, part by part: markup, charts, components and controls.

import { component } from "./component.js";
import { data, el, root, say, RETRY_MS } from "./room.js";

/** @type {Promise<any> | undefined} */
let plotly;
const MOVE_MS = 150;
const INKED = ["scatter", "heatmap", "contour"]; // whose text stands on the page; that of bars stands on colour
const LARGER = document.body?.classList.contains("screen") ? 1.4 : 1; // text of charts, on a projector

/**
 * Draw a picture. `move` is called with a control's id and its value (null presses a button); without it the page
 * says what the controls are set to. `own` is a copy that no class follows.
 * @param {any} place @param {any[]} nodes @param {((id: string, value: any) => void) | null} move @param {boolean} [own]
 */
export function draw(place, nodes, move, own = false) {
  const focused = place.contains(document.activeElement) ? document.activeElement?.id : "";
  const builders = [...place.children].filter((part) => part.shadowRoot && part.again);
  const spot = builders.map((part) => part.shadowRoot.activeElement?.dataset?.path);
  const made = nodes.flatMap((node) => {
    // A tree that is being built, or a player, stays the same element, so that the keyboard stays where it was in it.
    const there = node.kind === "component" && builders.find((part) => part.dataset.id === node.id);
    if (there) there.again(node, move);
    return there || DRAWN[node.kind](node, move, own);
  });
  place.replaceChildren(...beside(made));
  builders.forEach((part, at) => spot[at] !== undefined && part.shadowRoot.querySelector(`[data-path="${spot[at]}"]`)?.focus({ preventScroll: true }));
  if (focused) document.getElementById(focused)?.focus();
}

/**
 * Charts that follow one another go side by side where there is room, each with its title and its source, and so does
 * what is drawn before one on a projector: its page is not scrolled. @param {any[]} made
 */
function beside(made) {
  const found = [];
  for (let at = 0; at < made.length;) {
    const row = [];
    let next = at;
    if (LARGER > 1) while (made[next]?.matches(".drawn:not([data-role])")) next += made[next + 1]?.matches(".small") ? 2 : 1;
    if (next > at && made[next + 1]?.matches(".chart")) row.push(made.slice(at, next));
    else next = at;
    while (made[next + 1]?.matches(".chart")) row.push(made.slice(next, next += made[next + 2]?.matches(".small") ? 3 : 2));
    if (row.length > 1) found.push(el("div", { class: "beside" }, ...row.map((each) => el("div", {}, ...each))));
    else found.push(made[at]);
    at = row.length > 1 ? next : at + 1;
  }
  return found;
}

/**
 * A picture's nodes; null if it may not be seen now. While the line is down it is asked for again: a question without
 * its picture cannot be answered.
 * @param {string} where @param {any[] | null} [moves] those of one's own @returns {Promise<any>}
 */
export async function load(where, moves = null) {
  try {
    const answer = await fetch(`${root}/${where}${where.includes("?") ? "&" : "?"}lang=${data.language}`, {
      ...(moves && { method: "POST", body: JSON.stringify({ moves }), headers: { "content-type": "application/json" } }),
    });
    return answer.ok ? await answer.json() : null;
  } catch {
    await new Promise((done) => setTimeout(done, RETRY_MS));
    return load(where, moves);
  }
}

/** @type {Record<string, (node: any, move: any, own: boolean) => any>} */
const DRAWN = {
  html: (node) => el("div", { class: "drawn", html: node.html }),
  text: (node) => el("div", { class: node.small ? "small" : "", html: node.html }),
  chart: (node) => [el("div", { html: node.title }), chart(node), ...(node.source ? [el("div", { class: "small", html: node.source })] : [])],
  component,
  slider: (node, move) => (move ? slider(node, move) : chosen(node, node.names[node.value])),
  group: (node, move) => (move ? group(node, move) : chosen(node, node.names.filter((/** @type {string} */ _said, /** @type {number} */ at) => node.value.includes(at)).join(", "))),
  select: (node, move) => (move ? select(node, move) : chosen(node, node.names[node.value])),
  button: (node, move) =>
    move ? el("button", { id: node.id, type: "button", disabled: node.off, onclick: () => move(node.id, null) }, label(node)) : [],
};

/** What a control is set to, where nobody can set it. @param {any} node @param {string} name */
const chosen = (node, name) => el("p", { id: node.id, class: "control" }, label(node), el("b", {}, name));

/** @param {any} node */
const label = (node) => el("span", { html: node.label });

/** @param {any} node @param {any} move */
function slider(node, move) {
  const out = el("output", {}, node.names[node.value]);
  /** @type {any} */
  let later;
  const input = el("input", {
    id: node.id,
    type: "range",
    min: 0,
    max: node.names.length - 1,
    oninput: () => {
      out.textContent = node.names[Number(input.value)];
      clearTimeout(later);
      later = setTimeout(() => move(node.id, [Number(input.value)]), MOVE_MS);
    },
  });
  input.value = String(node.value);
  return el("label", { class: "control" }, label(node), input, out);
}

/** What is chosen is known by its place: its name is another in each language. @param {any} node @param {any} move */
function group(node, move) {
  const buttons = node.names.map((/** @type {string} */ said, /** @type {number} */ at) =>
    el("button", {
      id: `${node.id}-${at}`, type: "button", "aria-pressed": node.value.includes(at) ? "true" : "false",
      onclick: () => move(node.id, [at]),
    }, said));
  return el("div", { class: "control", role: "group", "aria-label": node.label.replace(/<[^>]*>/g, "") }, label(node), ...buttons);
}

/** @param {any} node @param {any} move */
function select(node, move) {
  const options = node.names.map((/** @type {string} */ name, /** @type {number} */ at) => el("option", { selected: at === node.value }, name));
  const made = el("select", { id: node.id, onchange: () => move(node.id, made.selectedIndex) }, ...options);
  return el("label", { class: "control" }, label(node), made);
}

/** @param {any} node */
function chart(node) {
  const coming = el("p", { class: "coming small" }, say("chart_coming"));
  const place = el("div", { class: "chart", role: "img", "aria-label": node.alt }, coming);
  if (node.figure.layout.height) place.style.setProperty("--tall", `${node.figure.layout.height}px`);
  plotly ??= new Promise((done, failed) => {
    document.head.append(el("script", { src: `${root}/plotly.js`, onload: () => done(/** @type {any} */ (globalThis).Plotly), onerror: failed }));
  });
  plotly.then((found) => {
    const style = getComputedStyle(place);
    // The chart fills its place, which the projector's page may make smaller.
    const { height: _height, ...layout } = inked(node.figure.layout, style.color, LARGER);
    coming.remove();
    const traces = node.figure.data.map((/** @type {any} */ trace) =>
      INKED.includes(trace.type ?? "scatter") ? inked(trace, style.color, LARGER) : trace);
    // Above or below the plot in any height of it, so that neither it nor an axis's title is under the legend.
    if (layout.legend?.y < 0) layout.legend = { ...layout.legend, yref: "container", y: 0, yanchor: "bottom" };
    else if (layout.legend?.y >= 1) layout.legend = { ...layout.legend, yref: "container", y: 1, yanchor: "top" };
    for (const name of ["xaxis", "yaxis", ...Object.keys(layout).filter((key) => /^[xy]axis\d+$/.test(key))]) {
      const line = style.getPropertyValue("border-top-color");
      layout[name] = { gridcolor: line, zerolinecolor: line, linecolor: line, automargin: true, ...layout[name] };
    }
    const clear = { paper_bgcolor: "transparent", plot_bgcolor: "transparent", autosize: true };
    found.newPlot(place, traces, { ...layout, ...clear, font: { ...layout.font, color: style.color, size: 12 * LARGER } }, { displayModeBar: false, responsive: true, staticPlot: true });
  }, () => place.replaceChildren(node.alt));
  return place;
}

/**
 * The figure with its text in the page's colour and size; the server draws for the light page.
 * @param {any} part @param {string} colour @param {number} larger @returns {any}
 */
function inked(part, colour, larger) {
  if (Array.isArray(part)) return part.map((each) => inked(each, colour, larger));
  if (!part || typeof part !== "object") return part;
  return Object.fromEntries(Object.entries(part).map(([key, value]) => [
    key,
    /font$/.test(key) && value && typeof value === "object" && !Array.isArray(value)
      ? { ...value, color: colour, ...("size" in value && typeof value.size === "number" && { size: value.size * larger }) }
      : inked(value, colour, larger),
  ]));
}
