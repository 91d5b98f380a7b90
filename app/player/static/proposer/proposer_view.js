/** The leading lane's proposer: what it used for its guesses, if that can be shown. */

/**
 * @import { Note, RoundRecord, Settings } from "../../types.js"
 * @import { Lane, Round } from "../model/model.js"
 * @import { View } from "../model/state.js"
 */

import { drawAhead } from "./ahead_view.js";
import { el } from "../dom/dom.js";
import { drawLookahead } from "./lookahead_view.js";
import { createArrow, drawLookup } from "./lookup_view.js";
import { list, number } from "../model/model.js";
import { drawPaths } from "./paths_view.js";
import { O } from "../text/text_odds.js";
import { W } from "../text/text_proposer.js";

/**
 * The input of a proposer's picture: the visible part of the round, and its recorded row.
 * @typedef {{view: View, lane: Lane, round: Round, row: RoundRecord,
 *   note: Note, settings: Settings}} Scene
 */

const HEADS = ["medusa", "eagle", "eagle3", "mtp", "block"]; // which multiply probabilities along a path
const OVERLAPPING = ["draft-model", "branching", "shared-tokens"];
/** @type {Record<string, (scene: Scene) => string>} */
const FACTS = {
  medusa: (scene) => W.medusa(number(scene.note.heads), drafted(scene)),
  eagle: (scene) =>
    W.eagle(number(scene.note.levels), number(scene.note.candidates), drafted(scene), pruned(scene)),
  eagle3: (scene) =>
    W.eagle(number(scene.note.levels), number(scene.note.candidates), drafted(scene), pruned(scene)),
  mtp: (scene) =>
    W.mtp(number(scene.note.levels), number(scene.note.candidates), drafted(scene), pruned(scene)),
  block: (scene) => W.block(number(scene.note.slots), drafted(scene)),
  suffix: (scene) =>
    W.suffix(
      number(scene.note.match_length),
      number(scene.note.matches),
      number(scene.note.earlier),
      drafted(scene),
    ),
  recycling: (scene) => W.recycling(number(scene.note.known), number(scene.note.renewed), drafted(scene)),
  "parallel-draft": (scene) =>
    W.parallel(number(scene.note.draft_read), number(scene.note.masks), drafted(scene)),
  "text-draft": (scene) => W.byText(drafts(scene.note), drafted(scene)),
  "shared-tokens": (scene) => W.byTokens(drafts(scene.note), drafted(scene)),
  "early-exit": (scene) => W.exit(number(scene.note.exit_layer), drafted(scene)),
};

/** @returns {{root: HTMLElement, show: (view: View) => void, wake: (is: boolean) => void}} `root` is hidden where the proposer has nothing of its own to show */
export function createWindow() {
  const root = el("section", { class: "window", hidden: true });
  const arrow = createArrow(root);
  let drawn = "";
  let awake = false; // whether it is on screen or on paper
  /** @type {View|null} */
  let last = null;

  /** @param {View} view */
  function show(view) {
    last = view;
    const lane = view.lanes[view.lead]?.lane;
    const settings = lane?.trace?.header?.settings ?? {};
    const rows = list(lane?.trace?.rounds);
    const drawer = rows.length ? drawerOf(lane.proposer, settings) : null;
    root.hidden = !drawer;
    const key =
      drawer && awake
        ? [lane.trace?.header?.id, view.lead, view.current?.index, view.moment?.step].join(" ")
        : "";
    if (key === drawn) return;
    drawn = key;
    const round = view.current;
    const row = round && rows[round.index];
    const scene = row ? { view, lane, round, row, note: row.note ?? {}, settings } : null;
    const title = drawer ? (W.titles[drawer === drawAhead ? "draft-model" : lane.proposer] ?? "") : "";
    root.setAttribute("aria-label", title);
    root.replaceChildren(
      ...(drawer && awake
        ? [heading(title, scene), ...(scene ? drawer(scene) : [el("p", { class: "hint" }, W.start)])]
        : []),
    );
    arrow.draw();
  }

  return {
    root,
    show,
    /**
     * What nobody sees is not drawn with every step, and not left as it was.
     * @param {boolean} is
     */
    wake(is) {
      if (is === awake) return;
      awake = is;
      if (last) show(last);
    },
  };
}

/** @param {string} title @param {Scene|null} scene */
function heading(title, scene) {
  const where = scene && el("p", { class: "odds-where" }, O.where(scene.round.index + 1, scene.lane.label));
  return el("div", { class: "odds-head" }, el("h2", {}, title), where);
}

/**
 * @param {string} proposer
 * @param {Settings} settings
 * @returns {((scene: Scene) => (string|Node)[])|null}
 */
function drawerOf(proposer, settings) {
  if (proposer === "combined") return drawCombined;
  if (proposer === "lookahead") return drawLookahead;
  if (proposer === "prompt-lookup") return drawLookup;
  if (OVERLAPPING.includes(proposer) && settings.overlap === true) return drawAhead;
  if (!Object.hasOwn(FACTS, proposer)) return null;
  return (scene) => [
    el("p", { class: "window-line" }, FACTS[proposer](scene)),
    ...(HEADS.includes(proposer) ? drawPaths(scene) : []),
  ];
}

/**
 * Who guessed, and what that one shows by itself.
 * @param {Scene} scene
 */
function drawCombined(scene) {
  const { by } = scene.note;
  const options = { match: scene.settings.options?.lookup };
  const settings = { ...scene.settings, options, overlap: false };
  const drawer = by ? drawerOf(by, settings) : null;
  const who = by && scene.round.copied ? "copied" : (by ?? null);
  return [el("p", { class: "window-line" }, W.by(who)), ...(drawer ? drawer({ ...scene, settings }) : [])];
}

/**
 * How many nodes the target saw; pruning happens before that.
 * @param {Scene} scene
 */
function drafted({ lane, round }) {
  return lane.rounds[round.index].proposals.filter(
    (item) => item.verdict !== "pruned" && item.verdict !== "discarded",
  ).length;
}

/**
 * Whether the tree shows candidates that were not sent.
 * @param {Scene} scene
 */
function pruned({ lane, round }) {
  return lane.rounds[round.index].proposals.some((item) => item.verdict === "pruned");
}

/**
 * The pieces of text that a draft with another tokenizer wrote; their ends count characters.
 * @param {Note} note
 * @returns {string[]}
 */
function drafts(note) {
  const characters = [...(typeof note.draft_text === "string" ? note.draft_text : "")];
  const ends = list(note.draft_ends).map(number);
  return ends.map((end, at) => characters.slice(ends[at - 1] ?? 0, end ?? 0).join(""));
}
