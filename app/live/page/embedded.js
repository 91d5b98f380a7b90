/**
 * What the page carries: pieces of base64 in script elements that no browser runs. They are small, because WebKit's parser
 * takes a minute for one of twenty megabytes.
 *
 * @import { Files, ModelFile } from "./worker.js"
 */

const SLICE_MS = 12; // then the page may draw

const from64 = (/** @type {string} */ text) =>
  /** @type {{fromBase64?: (text: string) => Uint8Array<ArrayBuffer>}} */ (
    /** @type {unknown} */ (Uint8Array)
  ).fromBase64?.(text) ?? Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));

/** @param {string} name @returns {string} the text of an element */
export const textOf = (name) => document.getElementById(name)?.textContent ?? "";

/** The bytes of all pieces of one thing; the elements are emptied. @param {string} name @returns {Promise<Uint8Array<ArrayBuffer>>} */
async function bytes(name) {
  const parts = [...document.querySelectorAll(`script[data-of="${name}"]`)];
  /** @type {Uint8Array<ArrayBuffer>[]} */
  const found = [];
  let since = performance.now();
  for (const part of parts) {
    found.push(from64(part.textContent));
    part.textContent = "";
    if (performance.now() - since < SLICE_MS) continue;
    await new Promise((resolve) => setTimeout(resolve));
    since = performance.now();
  }
  return new Uint8Array(await new Blob(found).arrayBuffer());
}

/** @param {string} machine @returns {Promise<Files>} */
export async function files(machine) {
  const about = JSON.parse(textOf("about"));
  const one = async (/** @type {"target"|"draft"} */ role) => ({ ...about[role], file: await bytes(role) });
  return {
    builds: { plain: await bytes("plain"), relaxed: await bytes("relaxed") },
    target: /** @type {ModelFile} */ (await one("target")),
    draft: /** @type {ModelFile} */ (await one("draft")),
    vocabulary: about.vocabulary,
    rest: { machine, version: about.version, usual: about.usual, titles: about.titles },
  };
}
