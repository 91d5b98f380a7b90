"""axe-core, an independent checker, asked about a page as it stands; contrast once for all texts that look alike."""

from __future__ import annotations

from pathlib import Path

import axe_playwright_python
from playwright.sync_api import Page

AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
# A text's contrast follows from its own look, from the grounds it stands on, its own and its ancestors', and from the
# grounds of others that lie across it. LOOKS names all that for each text; of texts that are alike one is measured,
# once per session. Contrast takes most of axe's time, and most of a page is the same from one state to the next. Where
# axe cannot say, as of one letter, it is asked about other texts of that look; not about the same, at its place, again.
LOOKS = """() => {
  const within = (root) => [...root.querySelectorAll("*")].flatMap((one) =>
    one.shadowRoot ? [one, ...within(one.shadowRoot)] : [one]);
  const over = (one) => one.assignedSlot ?? one.parentElement ?? one.getRootNode().host;
  const known = new Map();
  const ground = (one) => {
    if (!one) return "";
    if (!known.has(one)) {
      const style = getComputedStyle(one);
      const own = [style.backgroundColor, style.backgroundImage, style.opacity, style.filter, style.visibility].join();
      const bare = own === "rgba(0, 0, 0, 0),none,1,none,visible";
      known.set(one, bare ? ground(over(one)) : `${ground(over(one))}/${own}`);
    }
    return known.get(one);
  };
  const all = within(document.body).map((one) => [one, one.getBoundingClientRect()])
    .filter(([one, { width, height }]) => width && height && one.checkVisibility());
  const grounds = all.filter(([one]) => ground(one) !== ground(over(one)));
  const across = (text, { left, right, top, bottom }) => {
    const mine = new Set();
    for (let one = text; one; one = over(one)) mine.add(one);
    return grounds.filter(([one, box]) => box.left < right && left < box.right && box.top < bottom && top < box.bottom
      && !mine.has(one)).map(([one, box]) => {
        const { position, zIndex } = getComputedStyle(one);
        const whole = box.left <= left && right <= box.right && box.top <= top && bottom <= box.bottom;
        const behind = one.compareDocumentPosition(text) & Node.DOCUMENT_POSITION_FOLLOWING;
        return [ground(one), position, zIndex, whole, behind].join();
      });
  };
  const written = (one) => [...one.childNodes]
    .map((child) => child.nodeType === Node.TEXT_NODE ? child.data.trim() : "");
  const texts = all.filter(([one]) => one.matches("input, select, textarea") || written(one).some(Boolean));
  window.looked = texts.map(([one]) => one);
  return texts.map(([one, box]) => {
    const { color, fill, fontSize, fontWeight, textShadow } = getComputedStyle(one);
    const others = [...new Set(across(one, box))].sort();
    const own = [one.matches("input, select, textarea"), color, fill, fontSize, fontWeight, textShadow];
    const look = [...own, ground(one), ...others].join("|");
    const { left, top, width, height } = box;
    return [look, [look, one.value, ...written(one), left, top, width, height, innerWidth, innerHeight].join("|")];
  });
}"""
# axe looks into open shadow roots by itself; an element in one is named by a path of several selectors. It gives up on
# contrast, or passes over it, where a text lies in a frame that scrolls, as a long lane and Streamlit's whole page do:
# for that rule all frames are unfolded, and made as high as what they hold, so that it stays on their own ground.
# What stays at the page's edge covers a target in one place only: such are asked about in the middle.
# `mouse`: whatever shows the hand of something to be clicked has, holds or lies within something that takes keys.
CHECK = """async ([looks, enough, tried, colours]) => {
  const within = (root) => [...root.querySelectorAll("*")].flatMap((one) =>
    one.shadowRoot ? [one, ...within(one.shadowRoot)] : [one]);
  const tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"];
  const rules = { "color-contrast": { enabled: false } };
  const resultTypes = ["violations", "incomplete"]; // what passed is only named: nodes take long to describe
  const all = colours ? []
    : [await axe.run(document, { runOnly: { type: "tag", values: tags }, rules, resultTypes, elementRef: true })];
  const covered = all.flatMap(({ violations }) => violations.filter(({ id }) => id === "target-size"));
  for (const size of covered) {
    const places = within(document).map((one) => [one, one.scrollTop]);
    const small = [];
    for (const node of size.nodes) {
      node.element.scrollIntoView({ block: "center", behavior: "instant" });
      const runOnly = { type: "rule", values: ["target-size"] };
      if ((await axe.run({ include: [node.element] }, { runOnly, resultTypes })).violations.length) small.push(node);
    }
    size.nodes = small;
    for (const [one, top] of places) if (one.scrollTop !== top) one.scrollTop = top;
  }
  const measured = new Set(enough), known = new Set(tried);
  const texts = looks.map(([look, sight], at) => [look, window.looked[at], sight]);
  const left = () => texts.filter(([look, one, sight]) =>
    one.isConnected && !measured.has(look) && !known.has(sight));
  const first = (some) => some.filter(([look], at) => some.findIndex(([other]) => other === look) === at);
  const contrast = async (some) => {
    if (!some.length) return;
    const runOnly = { type: "rule", values: ["color-contrast"] };
    const result = await axe.run({ include: some.map(([, one]) => one) }, { runOnly, elementRef: true });
    some.forEach(([, , sight]) => known.add(sight));
    const passed = new Set(result.passes.flatMap(({ nodes }) => nodes.map(({ element }) => element)));
    texts.forEach(([look, one]) => { if (passed.has(one)) measured.add(look); });
    all.push(result);
  };
  const frames = !left().length ? [] : within(document).filter((one) => getComputedStyle(one).overflow !== "visible"
    && one.clientWidth > 2 && one.clientHeight > 2)
    .map((one) => [one, one.getAttribute("style"), one.scrollHeight > one.clientHeight]);
  for (const [one, , long] of frames)
    one.style.cssText += `;overflow:visible!important${long ? ";max-height:none!important;height:auto" : ""}`;
  for (const [one] of frames.toReversed())
    if (one.scrollHeight > one.clientHeight) one.style.minHeight = `${one.scrollHeight}px`;
  await contrast(first(left()));
  await contrast(left()); // which axe let pass unmeasured, such as one letter: each of those that look like it
  for (const [one, style] of frames) style === null ? one.removeAttribute("style") : one.setAttribute("style", style);
  const said = (results) => results.flatMap(({ id, nodes }) => nodes
    .map((node) => `${id}: ${JSON.stringify(node.target)} ${node.html.slice(0, 240)} ${node.failureSummary}`));
  const keys = "a[href], button, input, select, textarea, summary, label, [tabindex], [role=option], [role=menuitem]";
  return {
    redrawn: texts.some(([, one]) => !one.isConnected),
    measured: [...measured],
    tried: [...known],
    passed: all.flatMap(({ passes }) => passes.map(({ id }) => id)),
    found: said(all.flatMap(({ violations }) => violations)),
    broken: said(all.flatMap(({ incomplete }) => incomplete)).filter((one) => one.includes("Axe encountered an error")),
    mouse: within(document).filter((one) => getComputedStyle(one).cursor === "pointer" && one.checkVisibility()
      && one.getClientRects().length && !one.closest(keys) && !one.querySelector(keys))
      .map((one) => one.outerHTML.slice(0, 200)),
  };
}"""
MOVED = """async () => {
  const passing = document.getAnimations().filter((one) => one.effect?.getComputedTiming().iterations !== Infinity);
  await Promise.all(passing.map((one) => one.finished.catch(() => null)));
  return typeof axe !== "undefined";
}"""
REDRAWN = 5  # a chart may be drawn anew, for a window of another size, while its texts are measured
_measured: set[str] = set()  # looks with enough contrast
_tried: set[str] = set()  # texts, each at its place, that axe was asked about


def check(page: Page, state: str = "", colours: bool = False) -> None:
    """Assert that the page as it stands breaks no rule; Streamlit's own elements are held to it too.

    With `colours` only what a theme can change: for a state that was held to the other rules in the other theme.
    """
    page.mouse.move(1, 1)  # away from what shows something while it is pointed at
    if not page.evaluate(MOVED):
        page.evaluate(AXE)  # by the debugger, which no policy of the page forbids
    for _ in range(REDRAWN):
        looks = page.evaluate(LOOKS)
        known = sorted(_measured.intersection(look for look, _ in looks))
        tried = sorted(_tried.intersection(sight for _, sight in looks))
        result = page.evaluate(CHECK, [looks, known, tried, colours])
        if not result["redrawn"]:
            break
    assert result["broken"] == [], "\n".join([state, *result["broken"]])
    assert result["mouse"] == [], f"{state}: these take a click and no key: {result['mouse']}"
    assert colours or "button-name" in result["passed"], f"{state}: axe looked at nothing"
    assert result["measured"], f"{state}: axe measured no contrast"
    assert result["found"] == [], "\n".join([state, *result["found"]])
    _measured.update(result["measured"])
    _tried.update(result["tried"])
