/**
 * The course's pages: answers are chosen and locked, then shown; the list of lessons shows what was locked. Without a
 * script these pages are complete and show everything.
 *
 * @import { Answer, Given, Kept } from "./kept.js"
 */

import { el, setText } from "../../player/static/dom/dom.js";
import { nonNull } from "../../player/static/dom/non_null.js";
import { platform, read, where, write } from "./kept.js";

/** @type {Record<string, string>} what is said here, in the page's language */
const T = JSON.parse(document.querySelector("main")?.dataset.texts ?? "{}");

/** A sentence with its values. @param {string} name @param {Record<string, string|number>} values */
const said = (name, values) => T[name].replace(/\{(\w+)\}/g, (_, value) => String(values[value]));

/** One question, made from what the page says without a script. */
class Question {
  /** @type {HTMLInputElement[]} */
  inputs;
  lock = el("button", { type: "button", class: "main", disabled: true }, T.lock);
  verdict = el("p", { class: "verdict", tabindex: -1 });

  /** @param {HTMLElement} part @param {() => void} locked */
  constructor(part, locked) {
    this.part = part;
    this.details = nonNull(part.querySelector("details"));
    const { kind, lesson, name } = part.dataset;
    this.lesson = nonNull(lesson);
    this.name = /** @type {"predict"|"check"} */ (name);
    this.inputs = kind === "number" ? [this.number()] : [...part.querySelectorAll("li")].map((row) => this.option(row));
    this.details.before(this.lock, this.verdict);
    this.details.hidden = this.verdict.hidden = true;
    part.addEventListener("input", () => (this.lock.disabled = this.given() === null));
    this.lock.addEventListener("click", () => {
      this.keep();
      locked();
      this.verdict.focus();
    });
  }

  number() {
    const { low = "", high = "", step = "" } = this.part.dataset;
    const input = el("input", { type: "number", min: low, max: high, step });
    this.part.prepend(el("label", {}, said("range", { low, high }), input));
    return input;
  }

  /** @param {HTMLLIElement} row */
  option(row) {
    const type = this.part.dataset.kind === "several" ? "checkbox" : "radio";
    const input = el("input", { type, name: this.name, value: row.dataset.key });
    const label = el("label");
    label.append(input, el("span", {}));
    nonNull(label.lastElementChild).append(...row.childNodes);
    row.append(label);
    return input;
  }

  /** What is chosen now; null while nothing is, or a number that is none or out of range. @returns {Given|null} */
  given() {
    const [first] = this.inputs;
    if (first?.type === "number") {
      const { badInput, rangeUnderflow, rangeOverflow } = first.validity;
      return first.value === "" || badInput || rangeUnderflow || rangeOverflow ? null : first.valueAsNumber;
    }
    const chosen = this.inputs.filter((input) => input.checked).map((input) => input.value);
    return this.part.dataset.kind === "several" ? (chosen.length ? chosen : null) : (chosen[0] ?? null);
  }

  /** @param {Given} given */
  isRight(given) {
    const { right = "", band } = this.part.dataset;
    if (typeof given === "number") return Math.abs(given - Number(right)) <= Number(band);
    return [given].flat().sort().join(" ") === right;
  }

  keep() {
    const given = nonNull(this.given());
    const kept = read();
    kept[this.lesson] = {
      ...kept[this.lesson],
      [this.name]: { given, right: this.isRight(given), at: new Date().toISOString().slice(0, 10) },
    };
    write(kept);
    this.show(given);
  }

  /** What was locked before, if this page can still show it. @returns {boolean} whether it is locked */
  restore() {
    const given = read()[this.lesson]?.[this.name]?.given;
    const chosen = new Set([given].flat().map(String));
    for (const input of this.inputs) {
      if (input.type === "number") input.value = String(given ?? "");
      else input.checked = chosen.has(input.value);
    }
    const now = this.given();
    if (now !== null) this.show(now);
    return now !== null;
  }

  /** @param {Given} given */
  show(given) {
    for (const input of this.inputs) input.disabled = true;
    this.lock.hidden = true;
    this.details.hidden = this.verdict.hidden = false;
    this.details.open = true;
    setText(nonNull(this.details.querySelector("summary")), T.answer);
    setText(this.verdict, this.isRight(given) ? T.right : T.wrong);
  }
}

/** @param {Answer|undefined} answer */
const marked = (answer) => (answer ? (answer.right ? T.is_right : T.is_wrong) : T.open);

/** @param {Kept} kept @param {string[]} lessons @param {"predict"|"check"} name */
function counted(kept, lessons, name) {
  const found = lessons.flatMap((lesson) => kept[lesson]?.[name] ?? []);
  const right = found.filter((answer) => answer.right).length;
  return said("counted", { locked: found.length, all: lessons.length, right });
}

/** The file that the lab's course continues from. */
function save() {
  const text = JSON.stringify({ format: "specdec-course", version: 1, lessons: read() }, null, 2);
  const href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  el("a", { href, download: "specdec-course.json" }).click();
  setTimeout(() => URL.revokeObjectURL(href), 60_000);
}

/** What was locked in each lesson, above and in their list. @param {HTMLElement} place */
function overview(place) {
  const rows = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("li[data-lesson]")]);
  const notes = rows.map((row) => row.appendChild(el("p", { class: "small" })));
  const sum = el("p", { role: "status" });
  const file = el("button", { type: "button" }, T.save);
  const clear = el("button", { type: "button" });
  const draw = () => {
    const kept = read();
    const lessons = rows.map((row) => row.dataset.lesson ?? "");
    lessons.forEach((lesson, at) => {
      const { predict, check } = kept[lesson] ?? {};
      setText(nonNull(notes[at]), said("each", { predict: marked(predict), check: marked(check) }));
    });
    const [predict, check] = [counted(kept, lessons, "predict"), counted(kept, lessons, "check")];
    setText(sum, `${said("sum", { predict, check })} ${T[where()]}`);
    file.disabled = clear.disabled = Object.keys(kept).length === 0;
    setText(clear, T.clear);
  };
  file.addEventListener("click", save);
  clear.addEventListener("click", () => {
    if (clear.textContent === T.clear) return setText(clear, T.sure);
    write({});
    draw();
  });
  clear.addEventListener("blur", () => setText(clear, T.clear));
  place.append(sum, file, ...(platform() ? [] : [clear]));
  window.addEventListener("pageshow", draw); // also when one comes back to it
}

export function open() {
  const place = document.getElementById("progress");
  if (place) overview(place);
  const after = document.getElementById("after");
  const parts = /** @type {HTMLElement[]} */ ([...document.querySelectorAll(".ask")]);
  const questions = parts.map((part) => new Question(part, () => after?.removeAttribute("hidden")));
  const locked = questions.map((question) => question.restore());
  if (after && !locked.includes(true)) after.hidden = true; // what explains the prediction, and what follows
}
