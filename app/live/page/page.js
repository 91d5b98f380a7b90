/**
 * The live page: a form, the player, and an engine in a worker. Nothing is fetched.
 *
 * @import { Trace } from "../../player/types.js"
 * @import { Start } from "../engine/lane.js"
 * @import { Data } from "../../player/static/feed/source.js"
 * @import { Curve } from "../engine/curve.js"
 * @import { Said } from "./engine_client.js"
 * @import { WithStats } from "./figures.js"
 * @typedef {{label: string, trace: Trace & WithStats}} Lane
 * @typedef {{ids: number[], branch: Start["branch"], text: string}} Branch
 */

import { el, setText } from "../../player/static/dom/dom.js";
import { nonNull } from "../../player/static/dom/non_null.js";
import { mount } from "../../player/static/player.js";
import { chosen, fill, lanes, linked, refused } from "./choices.js";
import { files, textOf } from "./embedded.js";
import { EngineClient } from "./engine_client.js";
import { gained, table } from "./figures.js";
import { say } from "./words.js";

const COPIED_MS = 2_500;
const byId = (/** @type {string} */ name) => nonNull(document.getElementById(name));

/** Which browser this is, for the record. */
function machine() {
  const agent = navigator.userAgent;
  const [, name, version] = /(Edg|Firefox)\/(\d+)/.exec(agent) ?? /(Chrome|Version)\/(\d+)/.exec(agent) ?? [];
  const browser = { Edg: "Edge", Chrome: "Chromium", Version: "WebKit" }[name] ?? name ?? "a browser";
  const system = /Android|iPhone|iPad|Windows|Mac OS X|CrOS|Linux/.exec(agent)?.[0] ?? "an unknown system";
  return `${browser} ${version ?? ""} on ${system}`;
}

class LivePage {
  form = /** @type {HTMLFormElement} */ (byId("form"));
  words = /** @type {HTMLTextAreaElement} */ (byId("prompt"));
  status = byId("status");
  run = /** @type {HTMLButtonElement} */ (byId("run"));
  stop = /** @type {HTMLButtonElement} */ (byId("stop"));
  loaded = false;
  runs = 0;
  /** @type {Curve|null} */
  curve = null;
  /** @type {Lane[]} */
  lanes = [];
  /** @type {{text: string|null, lanes: Lane[]}[]} runs that go on from each other, each with the token it began with */
  trail = [];
  /** @type {(() => void)|null} what waits for the run to end */
  next = null;
  about = JSON.parse(textOf("about"));
  client = new EngineClient(textOf("worker"), (said) => this.hear(said));

  constructor() {
    const host = byId("player");
    const shadow = host.attachShadow({ mode: "open" });
    const root = el("div", {});
    const style = el("style");
    style.textContent = textOf("player-style");
    shadow.append(style, root);
    this.player = mount(root, this.data(null), {
      open: () => this.client.follow(),
      answer: async (_, words) => {
        this.client.send({ type: "answer", words });
        return null;
      },
      branch: (trace, at, token) => this.begin(branched(trace, at, token)),
      back: (run) => this.show(Number(run)),
    });
    this.wire();
    if (!fill(this.form, location.hash)) this.form.reset();
    this.relevant();
  }

  /** What the player draws. @param {string|null} events a run to follow @returns {Data} */
  data(events) {
    const { rules, proposers, least } = this.about;
    return {
      mode: events ? "live" : "replay",
      events,
      traces: events ? lanes(chosen(this.form)).map(() => ({ label: "" })) : [],
      provenance: "measured",
      provenance_note: machine(),
      cursor: {},
      autoplay: false,
      prompt: chosen(this.form).prompt,
      compared: true,
      branches: true,
      trail: this.trail.map(({ text, lanes }, at) => ({ run: String(at), text, shown: lanes === this.lanes })),
      rules,
      proposers,
      least,
    };
  }

  wire() {
    this.form.onsubmit = (event) => {
      event.preventDefault();
      this.begin();
    };
    this.form.onkeydown = ({ key, ctrlKey, metaKey }) => {
      if (key === "Enter" && (ctrlKey || metaKey)) this.form.requestSubmit();
    };
    addEventListener("keydown", (event) => event.key === "Escape" && this.client.running && this.halt());
    this.stop.onclick = () => this.halt();
    byId("share").onclick = () => this.share();
    byId("measure").onclick = () => this.measure();
    const examples = /** @type {HTMLSelectElement} */ (byId("examples"));
    examples.onchange = () => {
      this.words.value = examples.value || this.words.value;
      examples.selectedIndex = 0;
    };
    this.form.oninput = () => this.relevant();
    addEventListener("hashchange", () => fill(this.form, location.hash) && this.relevant());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.player.update(this.now));
  }

  now = this.data(null);

  /** Fields that change nothing with these choices are switched off. */
  relevant() {
    const { proposer, temperature } = chosen(this.form);
    const plain = proposer === "none";
    const gamma = !["draft-model", "prompt-lookup"].includes(proposer);
    for (const [name, disabled] of Object.entries({ rule: plain, plain, gamma, seed: !temperature })) {
      const input = /** @type {HTMLInputElement} */ (this.form.elements.namedItem(name));
      input.disabled = disabled;
    }
    setText(byId("proposer-about"), this.about.proposers[proposer] ?? "");
  }

  /** Hand the models to the worker, and run what the form or the link says. */
  async load() {
    const given = await files(machine());
    const buffers = [given.target, given.draft].map(({ file }) => file.buffer);
    this.client.send({ type: "load", files: given }, buffers);
  }

  /** Run what the form says; or go on from a record, after so many of its tokens, with a token that somebody chose. @param {Branch} [from] */
  begin(from) {
    const choices = chosen(this.form);
    const why = refused(choices);
    if (why) return setText(this.status, why);
    if (!this.loaded) return;
    if (this.client.running) {
      this.next = () => this.begin(from);
      return this.halt();
    }
    this.trail.length = from ? this.trail.findIndex(({ lanes }) => lanes === this.lanes) + 1 : 0;
    try {
      history.replaceState(null, "", linked(choices));
    } catch {
      // a frame without an address of its own
    }
    this.runs += 1;
    this.lanes = [];
    setText(this.status, say("Decoding in this browser …"));
    setText(byId("figures"), "");
    this.busy(true);
    this.trail.push({ text: from ? from.text : null, lanes: this.lanes });
    const [ids, branch] = from ? [from.ids, from.branch] : [null, null];
    this.client.send({ type: "run", prompt: choices.prompt, ids, lanes: lanes(choices), branch });
    this.now = this.data(`run ${this.runs}`);
    this.player.update(this.now);
  }

  halt() {
    if (this.client.running) this.client.send({ type: "stop" });
  }

  /** @param {boolean} running */
  busy(running) {
    this.stop.disabled = !running;
    this.run.disabled = !this.loaded;
  }

  measure() {
    if (!this.loaded || this.client.running) return;
    setText(byId("curve-status"), say("Measuring …"));
    this.client.send({ type: "measure" });
  }

  /** @param {Said} said */
  hear(said) {
    if (said.type === "loaded") {
      this.loaded = true;
      setText(byId("build"), say(said.fused ? "relaxed SIMD, fused sums" : "plain SIMD"));
      this.busy(false);
      this.begin();
      document.dispatchEvent(new Event("wheel")); // nobody pressed Run: the page does not move by itself
      /** @type {HTMLElement|null|undefined} */ (byId("player").shadowRoot?.activeElement)?.blur();
    } else if (said.type === "finished")
      this.lanes.push({ label: said.label ?? "", trace: /** @type {Lane["trace"]} */ (said.record) });
    else if (said.type === "curve") {
      this.curve = said.curve;
      byId("curve").replaceChildren(table(said.curve));
      setText(byId("curve-status"), say("Measured in this browser just now: medians of five."));
      this.conclude();
    } else if (said.type === "error") setText(this.status, String(said.message));
    else if (said.type === "failed") {
      this.busy(false);
      setText(
        this.status,
        say("The engine stopped: {message} Reload the page to begin anew.", { message: said.message }),
      );
    } else if (said.type === "done") this.finish();
  }

  finish() {
    this.busy(false);
    const next = this.next;
    this.next = null;
    if (next) return next();
    const [first] = this.lanes;
    if (!first) return;
    const ended = this.lanes.some(({ trace }) => trace.end === "cancelled");
    if (first.trace.header?.branch) this.words.value = first.trace.header.prompt ?? "";
    const stopped = "Stopped. What was decoded until then is below.";
    setText(this.status, say(ended ? stopped : "Done. Step through it below, or change the words and run again."));
    if (this.curve) this.conclude();
    else this.measure();
  }

  conclude() {
    const traces = this.lanes.map(({ trace }) => trace);
    if (traces.length) setText(byId("figures"), gained(traces, this.curve));
  }

  /** A run of the trail again; one can go on from it elsewhere. @param {number} at */
  show(at) {
    this.lanes = this.trail[at].lanes;
    this.now = { ...this.data(null), traces: this.lanes };
    this.player.update(this.now);
    this.conclude();
  }

  async share() {
    const address = `${location.href.split("#")[0]}${linked(chosen(this.form))}`;
    const button = byId("share");
    const usual = button.textContent;
    try {
      await navigator.clipboard.writeText(address);
      setText(button, say("Copied"));
    } catch {
      location.hash = linked(chosen(this.form));
      setText(button, say("In the address bar"));
    }
    setTimeout(() => setText(button, String(usual)), COPIED_MS);
  }
}

/** @param {Trace} trace @param {number} at @param {number} token @returns {Branch} */
function branched({ header, output, texts }, at, token) {
  const ids = [...(header?.prompt_ids ?? []), ...(output?.ids ?? []).slice(0, at), token];
  return { ids, branch: { trace: header?.id ?? "", at, token }, text: texts?.[token] ?? "" };
}

/** Draw the page, then load what lies behind it. */
export function openPage() {
  if (typeof WebAssembly !== "object")
    return setText(byId("status"), say("This browser has no WebAssembly, which the models need."));
  const page = new LivePage();
  const load = () => page.load().catch(({ message }) => page.hear({ type: "failed", message }));
  if (document.readyState === "loading") addEventListener("DOMContentLoaded", load);
  else load();
}
