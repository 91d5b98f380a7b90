/** The player's keys. They act only while the focus is inside it, and never where the viewer types or chooses. */

/**
 * @param {{ready: () => boolean, event: (by: number) => void, round: (by: number) => void, node: (by: number) => void,
 *   lead: (lane: number) => void, view: () => void, toggle: () => void, home: () => void, end: () => void, drop: () => void,
 *   choose: (chip: HTMLElement) => void, help: () => void}} on
 * @returns {(event: KeyboardEvent) => void}
 */
export function createKeys(on) {
  const actions = {
    ArrowRight: () => on.event(1),
    ArrowLeft: () => on.event(-1),
    ArrowDown: () => on.round(1),
    ArrowUp: () => on.round(-1),
    ".": () => on.node(1),
    ",": () => on.node(-1),
    v: on.view,
    Home: on.home,
    End: on.end,
    Escape: on.drop,
    " ": on.toggle,
    "?": on.help,
  };
  for (let lane = 0; lane < 9; lane += 1) actions[String(lane + 1)] = () => on.lead(lane);
  return (event) => {
    const target = event.target;
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (target.closest("dialog, select, textarea, [contenteditable]")) return;
    if (target.matches("input") && target.type !== "range") return;
    if (target.matches("button, summary") && event.key === " ") return; // the button's own key
    if (target.matches("span[role=button]") && (event.key === "Enter" || event.key === " ")) {
      event.preventDefault();
      on.choose(target);
      return;
    }
    const action = Object.hasOwn(actions, event.key) ? actions[event.key] : null;
    if (!action || !on.ready()) return;
    if (event.key === "Escape") {
      on.drop(); // left to the page as well, where it may stop a run
      return;
    }
    event.preventDefault();
    event.stopPropagation();
    action();
  };
}
