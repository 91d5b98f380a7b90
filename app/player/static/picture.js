/**
 * A view as a picture: SVG for pages, PNG for slides. The browser draws a copy of the view with the player's own style
 * sheet, so a picture shows what the screen shows: glyphs, textures, theme, and the current scroll position.
 */

import { el, icon, setText } from "./dom.js";
import { sure } from "./sure.js";
import { PICTURE } from "./text.js";

const ICON = "M1.5 2.5h13v11h-13zM3 4v8h10V4zM4 11l2.5-4 2 2.5 1.3-1.5L12 11z"; // a frame (its hole wound the other way) around a picture
const SHARP = 2; // pixels of a PNG for each of the screen's
const MOST_PIXELS = 60_000_000;
const MOST_SIDE = 16_000;
const EDGE = 12; // empty space around the view
// A picture cannot load fonts; the browser's own are set before it is measured, so that line breaks do not change.
const FONTS = [["--st-font", "system-ui, sans-serif"], ["--st-code-font", 'ui-monospace, "DejaVu Sans Mono", monospace']];
const NOT_XML = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g;

/**
 * The button with its menu: each view that is on screen, as SVG and as PNG.
 * @param {Record<string, {root: HTMLElement}>} views by name
 * @param {{titles?: Record<string, string>, where?: () => string}} [about] `titles` as shown to the viewer; `where` names
 *   the moment, for the file's name
 * @returns {{root: HTMLElement, close: () => void}}
 */
export function createPicture(views, { titles = {}, where = () => "" } = {}) {
  const button = el("button", { type: "button", class: "control picture-button", "aria-label": PICTURE.menu, title: PICTURE.menu, "aria-expanded": "false" }, icon(ICON));
  const menu = el("div", { class: "picture-menu", role: "group", "aria-label": PICTURE.menu, hidden: true });
  const said = el("p", { class: "note", role: "status" });
  const root = el("div", { class: "picture" }, button, menu);

  /** @param {boolean} on */
  function open(on) {
    menu.hidden = !on;
    button.setAttribute("aria-expanded", String(on));
    if (!on) return;
    setText(said, "");
    const there = Object.entries(views).filter(([, view]) => view.root.getClientRects().length > 0);
    menu.replaceChildren(el("b", {}, PICTURE.title), ...there.map(([name, view]) => row(name, view.root)), el("p", { class: "note" }, PICTURE.kinds), said);
    menu.querySelector("button")?.focus();
  }

  /** @param {string} name @param {HTMLElement} panel */
  function row(name, panel) {
    const title = titles[name] ?? (name === "text" ? PICTURE.text : name);
    /** @param {"SVG"|"PNG"} kind */
    const save = (kind) => {
      const one = el("button", { type: "button", class: "picture-kind", "aria-label": PICTURE.as(title, kind) }, kind);
      one.onclick = async () => {
        try {
          const blob = await (kind === "PNG" ? pngOf(panel) : Promise.resolve(svgBlob(svgOf(panel).text)));
          download(blob, ["specdec", name, where()].filter(Boolean).join("-") + `.${kind.toLowerCase()}`);
          open(false);
          button.focus();
        } catch {
          setText(said, PICTURE.failed);
        }
      };
      return one;
    };
    return el("div", { class: "picture-row" }, el("span", {}, title), save("SVG"), save("PNG"));
  }

  button.onclick = () => open(Boolean(menu.hidden));
  root.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || menu.hidden) return;
    event.stopPropagation();
    open(false);
    button.focus();
  });
  root.addEventListener("focusout", (event) => {
    if (event.relatedTarget && !root.contains(/** @type {Node} */ (event.relatedTarget))) open(false);
  });
  return { root, close: () => open(false) };
}

/**
 * A view as an SVG document.
 * @param {HTMLElement} panel a part of the player that is laid out
 * @returns {{text: string, width: number, height: number}}
 */
export function svgOf(panel) {
  const box = /** @type {HTMLElement} */ (panel.closest(".player"));
  const copy = /** @type {HTMLElement} */ (panel.cloneNode(true));
  copyState(panel, copy);
  copy.removeAttribute("id");
  copy.classList.add("open"); // a view that shares the screen is no open tab's
  let outer = copy;
  for (let above = panel.parentElement; above; above = above === box ? null : above.parentElement) {
    const frame = /** @type {HTMLElement} */ (above.cloneNode(false));
    frame.style.cssText = "display: block; margin: 0; padding: 0; border: 0; block-size: auto; overflow: visible; position: static";
    frame.append(outer);
    outer = frame;
  }
  const inline = panel.getBoundingClientRect().width;
  copy.style.cssText += `; inline-size: ${inline}px; max-inline-size: none; margin: 0; block-size: auto; min-block-size: 0; max-block-size: none; position: absolute; left: ${EDGE}px; top: ${EDGE}px`;
  outer.style.cssText += `; position: relative; inline-size: ${box.getBoundingClientRect().width}px; border-radius: 0; background: var(--page); color-scheme: ${box.dataset.theme}`;
  const css = cssOf(/** @type {Document|ShadowRoot} */ (box.getRootNode()));
  const around = getComputedStyle(sure(box.parentElement));
  for (const name of new Set(css.match(/--[\w-]+/g))) {
    const value = around.getPropertyValue(name).trim();
    if (value) outer.style.setProperty(name, value);
  }
  for (const [name, fonts] of FONTS) outer.style.setProperty(name, fonts);
  const { width, height } = measured(box, outer, copy);
  const svg = new DOMParser().parseFromString(
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}"><style/>`
    + '<foreignObject x="0" y="0" width="100%" height="100%"/></svg>', "image/svg+xml",
  ).documentElement;
  const [style, place] = svg.children;
  style.textContent = `${css}\n* { animation: none !important; transition: none !important; }`; // in its final state
  svg.setAttribute("style", `font-size: ${getComputedStyle(document.documentElement).fontSize}`); // the size of a rem
  place.append(outer);
  return { text: new XMLSerializer().serializeToString(svg).replace(NOT_XML, "\ufffd").toWellFormed(), width, height };
}

/**
 * A view as pixels.
 * @param {HTMLElement} panel
 * @returns {Promise<Blob>}
 * @throws where the browser does not let a page read back what it drew from markup
 */
export async function pngOf(panel) {
  const { text, width, height } = svgOf(panel);
  const scale = Math.min(SHARP, MOST_SIDE / width, MOST_SIDE / height, Math.sqrt(MOST_PIXELS / (width * height)));
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`; // an image from a blob URL could not be read back
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  sure(canvas.getContext("2d")).drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve, reject) => {
    canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("the canvas gave nothing"))), "image/png");
  });
}

/**
 * Complete a copy of elements: add what was drawn and typed, and apply the scroll positions.
 * @param {Element} from
 * @param {Element} to
 */
function copyState(from, to) {
  const originals = [from, ...from.querySelectorAll("*")];
  const copies = /** @type {HTMLElement[]} */ ([to, ...to.querySelectorAll("*")]);
  originals.forEach((original, at) => {
    const copy = copies[at];
    if (original instanceof HTMLCanvasElement) {
      const image = el("img", { src: original.toDataURL(), class: original.getAttribute("class"), alt: "" });
      image.style.cssText = `${original.style.cssText}; inline-size: ${original.clientWidth}px; block-size: ${original.clientHeight}px`;
      copy.replaceWith(image);
    } else if (original instanceof HTMLInputElement) {
      copy.setAttribute("value", original.value);
      if (original.checked) copy.setAttribute("checked", "");
    } else if (original instanceof HTMLElement && /auto|scroll/.test(getComputedStyle(original).overflow)) {
      // On screen it may be as high as its neighbours leave it; in the picture it is alone.
      copy.style.cssText += scrolls(original)
        ? `; flex: none; overflow: visible; block-size: auto; max-block-size: none; min-inline-size: ${original.scrollWidth}px`
        : `; flex: none; block-size: ${original.offsetHeight}px; max-block-size: none`;
    }
    copy.classList?.remove("lit");
  });
}

/** @param {Element} element */
function scrolls(element) {
  return element.scrollWidth > element.clientWidth || element.scrollHeight > element.clientHeight;
}

/**
 * The copy's size: laid out for a moment next to the player, out of sight.
 * @param {HTMLElement} box
 * @param {HTMLElement} outer
 * @param {HTMLElement} copy
 */
function measured(box, outer, copy) {
  const stand = el("div", { "aria-hidden": "true", inert: true });
  stand.style.cssText = "position: absolute; inset: 0 auto auto 0; inline-size: 0; block-size: 0; overflow: hidden; visibility: hidden";
  stand.append(outer);
  sure(box.parentNode).append(stand);
  const width = Math.ceil(Math.max(copy.scrollWidth, copy.offsetWidth)) + 2 * EDGE;
  const height = Math.ceil(Math.max(copy.scrollHeight, copy.offsetHeight)) + 2 * EDGE;
  outer.style.inlineSize = `${Math.max(width, box.getBoundingClientRect().width)}px`;
  outer.style.blockSize = `${height}px`; // what stands in the flow of `outer` has no height of its own
  outer.remove();
  stand.remove();
  return { width, height };
}

/**
 * The style sheets of the tree that `root` is, as one text; they refer to no other address.
 * @param {Document|ShadowRoot} root
 */
function cssOf(root) {
  const rules = [...root.styleSheets, ...root.adoptedStyleSheets].flatMap((sheet) => [...sheet.cssRules]);
  return rules.filter((rule) => !(rule instanceof CSSFontFaceRule || rule instanceof CSSImportRule)).map((rule) => rule.cssText).join("\n");
}

/** @param {string} text */
function svgBlob(text) {
  return new Blob([text], { type: "image/svg+xml" });
}

/** @param {Blob} blob @param {string} name */
function download(blob, name) {
  const link = el("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
