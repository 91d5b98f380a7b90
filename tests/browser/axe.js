// What axe.py asks of a page as it stands: `look` describes it, `check` asks axe about what of it is new.
(() => {
  const within = (root) => [...root.querySelectorAll("*")].flatMap((one) =>
    one.shadowRoot ? [one, ...within(one.shadowRoot)] : [one]);
  const over = (one) => one.assignedSlot ?? one.parentElement ?? one.getRootNode().host;
  const hash = (text) => {
    let [low, high] = [0xdeadbeef, 0x41c6ce57];
    for (let at = 0; at < text.length; at += 1) {
      const code = text.charCodeAt(at);
      low = Math.imul(low ^ code, 2654435761);
      high = Math.imul(high ^ code, 1597334677);
    }
    return `${(low >>> 0).toString(36)}.${(high >>> 0).toString(36)}`;
  };

  // Contrast. A text's follows from its own look, from the grounds it stands on, its own and its ancestors', and from
  // the grounds of others that lie across it. A look names all that; of texts that are alike some are measured, once
  // per session: contrast takes most of axe's time. The longest first, as axe cannot say of one letter. Where it
  // cannot, it is asked about some others of that look; not about the same, at its place (its sight), again.
  const looks = () => {
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
    return texts.map(([one, box]) => {
      const { color, fill, fontSize, fontWeight, textShadow } = getComputedStyle(one);
      const others = [...new Set(across(one, box))].sort();
      const own = [one.matches("input, select, textarea"), color, fill, fontSize, fontWeight, textShadow];
      const look = hash([...own, ground(one), ...others].join("|"));
      const { left, top, width, height } = box;
      const sight = [look, one.value, ...written(one), left, top, width, height, innerWidth, innerHeight].join("|");
      const length = Math.max(one.value?.length ?? 0, ...written(one).map((text) => text.length));
      return { one, look, sight: hash(sight), length };
    });
  };

  // The other rules. What they say of an element and of all within it follows from its part: its markup and theirs
  // without what texts say and which numbers and names things have, whether each is seen, how large targets are and
  // what is near small ones, what scrolls, how links stand out; and from the markup of what it lies in. A part that was
  // held to the rules once, in a window as wide, need not be again.
  const SILENT = new Set(["SCRIPT", "STYLE", "LINK", "NOSCRIPT", "TEMPLATE"]);
  const LINKING = new Set(["for", "headers", "list", "aria-labelledby", "aria-describedby", "aria-controls", "aria-owns",
    "aria-activedescendant", "aria-details", "aria-errormessage", "aria-flowto"]);
  const SAID = new Set(["aria-label", "title", "alt", "placeholder", "value", "href", "src", "name", "aria-valuetext",
    "aria-valuenow", "aria-valuemin", "aria-valuemax", "aria-colindex", "aria-rowindex", "aria-posinset"]);
  const NAMELESS = /^(class|style|id|width|height|data-.*)$/;
  const MEANT = /^(role|tabindex|focusable|aria-.*)$/;
  const TARGETS = "a[href], area, button, input, select, textarea, summary, [tabindex], [role]";
  const ENOUGH = 24; // pixels, for a target
  const HIDDEN = 13; // pixels of what scrolls that axe lets pass
  const markup = (one, twice) => {
    const root = one.getRootNode();
    const drawn = one instanceof SVGElement;
    const named = [...one.attributes].map(({ name, value }) => {
      if (NAMELESS.test(name) || drawn && !MEANT.test(name)) return "";
      if (LINKING.has(name)) {
        return `${name}=${value.split(/\s+/).map((id) => {
          const other = root.getElementById(id);
          return other ? `${other.localName}${Boolean(other.textContent.trim())}` : "none";
        })}`;
      }
      return `${name}=${SAID.has(name) ? Boolean(value.trim()) : value}`;
    });
    const labels = [...one.labels ?? []].map((label) => Boolean(label.textContent.trim()));
    const said = [...one.childNodes].some((child) => child.nodeType === Node.TEXT_NODE && child.data.trim());
    const style = (one.getAttribute("style") ?? "").includes("!important");
    return [one.localName, ...named.filter(Boolean).sort(), labels, said, style, twice.has(one.id)].join("|");
  };
  const parts = () => {
    const all = within(document);
    const boxes = new Map(all.map((one) => [one, one.getBoundingClientRect()]));
    const targets = all.filter((one) => one.matches(TARGETS) && boxes.get(one).width && one.checkVisibility());
    const clickable = new Set(targets);
    const ids = new Set(), twice = new Set();
    for (const { id } of all) if (id) (ids.has(id) ? twice : ids).add(id);
    const sight = (one) => {
      const { left, top, right, bottom, width, height } = boxes.get(one);
      const told = [one.checkVisibility({ visibilityProperty: true }), Boolean(width && height), right <= 0];
      if (clickable.has(one) && Math.min(width, height) < ENOUGH) {
        told.push(Math.round(width), Math.round(height));
        for (const other of targets) {
          const box = boxes.get(other);
          const [x, y] = [box.left - left, box.top - top].map(Math.round);
          const near = box.left < right + ENOUGH && left < box.right + ENOUGH
            && box.top < bottom + ENOUGH && top < box.bottom + ENOUGH;
          if (other !== one && near) told.push([x, y, Math.round(box.width), Math.round(box.height)]);
        }
      }
      const long = [one.scrollHeight - one.clientHeight, one.scrollWidth - one.clientWidth].map((more) => more > HIDDEN);
      if (long.some(Boolean)) told.push(long, getComputedStyle(one).overflow);
      if (one.localName === "a") {
        for (const each of [one, over(one)].filter(Boolean)) {
          const { color, backgroundColor, textDecorationLine, fontWeight, borderBottom } = getComputedStyle(each);
          told.push(color, backgroundColor, textDecorationLine, fontWeight, borderBottom);
        }
      }
      return told.join();
    };
    const found = [];
    const walk = (one, above) => {
      const own = markup(one, twice);
      const chain = hash(`${above}>${own}`);
      const part = { one, key: "", size: 1, inner: [] };
      found.push(part);
      const children = [...one.shadowRoot?.children ?? [], ...one.children].filter((each) => !SILENT.has(each.tagName));
      part.inner = children.map((each) => walk(each, chain));
      part.size += part.inner.reduce((sum, { size }) => sum + size, 0);
      part.bare = hash([own, sight(one), Boolean(one.shadowRoot), ...part.inner.map(({ bare }) => bare)].join("/"));
      part.key = hash(`${above} ${part.bare}`);
      return part;
    };
    walk(document.documentElement, String(innerWidth));
    return found;
  };

  const look = async () => {
    // one that is driven by scrolling ends with no time
    const passing = document.getAnimations().filter((one) => one.timeline === document.timeline && one.effect?.getComputedTiming().iterations !== Infinity);
    // One whose element is taken away at that moment may never end.
    const ended = Promise.all(passing.map((one) => one.finished.catch(() => null)));
    await Promise.race([ended, new Promise((done) => setTimeout(done, 3000))]);
    window.looked = { texts: looks(), parts: parts() };
    return JSON.stringify({
      ready: typeof axe !== "undefined",
      looks: looked.texts.map((each) => each.look),
      sights: looked.texts.map((each) => each.sight),
      parts: looked.parts.map((each) => each.key),
    });
  };

  const TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"];
  const MOST = 60; // parts that are left out: axe compares every element with each
  const resultTypes = ["violations", "incomplete"]; // what passed is only named: nodes take long to describe
  // axe looks into open shadow roots by itself; an element in one is named by a path of several selectors.
  const rules = async (clean) => {
    const passed = [];
    const visit = (part) => clean.has(part.key) ? part.one.isConnected && passed.push(part) : part.inner.forEach(visit);
    visit(looked.parts[0]);
    if (passed[0]?.one === document.documentElement) return [];
    const exclude = passed.sort((one, other) => other.size - one.size).slice(0, MOST).map(({ one }) => one);
    const options = { runOnly: { type: "tag", values: TAGS }, rules: { "color-contrast": { enabled: false } } };
    const all = [await axe.run({ include: [document], exclude }, { ...options, resultTypes, elementRef: true })];
    // What stays at the page's edge covers a target in one place only: such are asked about in the middle.
    for (const size of all[0].violations.filter(({ id }) => id === "target-size")) {
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
    return all;
  };

  // axe gives up on contrast, or passes over it, where a text lies in a frame that scrolls, as a long lane and
  // Streamlit's whole page do: all frames are unfolded, and made as high as what they hold, so that it stays on their
  // own ground.
  const FIRST = 3;
  const OTHERS = 8;
  const contrast = async (measured, tried, asked) => {
    const { texts } = looked;
    const left = () => texts.filter(({ one, look, sight }) =>
      one.isConnected && !measured.has(look) && !tried.has(sight));
    if (!left().length) return [];
    const all = [];
    const ask = async (some) => {
      if (!some.length) return;
      const runOnly = { type: "rule", values: ["color-contrast"] };
      const result = await axe.run({ include: some.map(({ one }) => one) }, { runOnly, elementRef: true });
      some.forEach(({ look, sight }) => { tried.add(sight); asked.push(look); });
      const passed = new Set(result.passes.flatMap(({ nodes }) => nodes.map(({ element }) => element)));
      texts.forEach(({ one, look }) => { if (passed.has(one)) measured.add(look); });
      all.push(result);
    };
    const frames = within(document).filter((one) => getComputedStyle(one).overflow !== "visible"
      && one.clientWidth > 2 && one.clientHeight > 2)
      .map((one) => [one, one.getAttribute("style"), one.scrollHeight > one.clientHeight]);
    for (const [one, , long] of frames)
      one.style.cssText += `;overflow:visible!important${long ? ";max-height:none!important;height:auto" : ""}`;
    for (const [one] of frames.toReversed())
      if (one.scrollHeight > one.clientHeight) one.style.minHeight = `${one.scrollHeight}px`;
    for (const most of [FIRST, OTHERS]) {
      const alike = new Map();
      await ask(left().sort((one, other) => other.length - one.length).filter(({ look }) => {
        alike.set(look, (alike.get(look) ?? 0) + 1);
        return alike.get(look) <= most;
      }));
    }
    for (const [one, style] of frames) style === null ? one.removeAttribute("style") : one.setAttribute("style", style);
    return all;
  };

  // `mouse`: whatever shows the hand of something to be clicked has, holds or lies within something that takes keys.
  const check = async (before) => {
    const known = JSON.parse(before);
    const [measured, tried, clean] = [known.measured, known.tried, known.clean].map((each) => new Set(each));
    const asked = [];
    const all = [...await rules(clean), ...await contrast(measured, tried, asked)];
    const said = (results) => results.flatMap(({ id, nodes }) => nodes
      .map((node) => `${id}: ${JSON.stringify(node.target)} ${node.html.slice(0, 240)} ${node.failureSummary}`));
    const keys = "a[href], button, input, select, textarea, summary, label, [tabindex], [role=option], [role=menuitem]";
    const unmoved = new Set(all.length ? parts().map(({ key }) => key) : clean);
    return JSON.stringify({
      redrawn: looked.texts.some(({ one }) => !one.isConnected),
      measured: [...measured],
      tried: [...tried],
      asked,
      clean: looked.parts.map(({ key }) => key).filter((key) => unmoved.has(key)),
      passed: all.flatMap(({ passes }) => passes.map(({ id }) => id)),
      found: said(all.flatMap(({ violations }) => violations)),
      broken: said(all.flatMap(({ incomplete }) => incomplete)).filter((one) => one.includes("Axe encountered an error")),
      mouse: within(document).filter((one) => getComputedStyle(one).cursor === "pointer" && one.checkVisibility()
        && one.getClientRects().length && !one.closest(keys) && !one.querySelector(keys))
        .map((one) => one.outerHTML.slice(0, 200)),
    });
  };
  return { look, check };
})()
