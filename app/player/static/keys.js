/** The player's keys. They act only while the focus is inside it, and never where the viewer types or chooses. */

const SLIDER_KEYS = ["ArrowLeft", "ArrowRight", "Home", "End", "PageUp", "PageDown"];

/**
 * @param {{ready: () => boolean, round: (by: number) => void, token: (by: number) => void, toggle: () => void,
 *   home: () => void, end: () => void, drop: () => void, choose: (chip: HTMLElement) => void, help: () => void}} on
 * @returns {(event: KeyboardEvent) => void}
 */
export function createKeys(on) {
  const actions = {
    ArrowRight: () => on.token(1),
    ArrowLeft: () => on.token(-1),
    ArrowDown: () => on.round(1),
    ArrowUp: () => on.round(-1),
    Home: on.home,
    End: on.end,
    Escape: on.drop,
    " ": on.toggle,
    "?": on.help,
  };
  return (event) => {
    const target = event.target;
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (target.closest("dialog, select, textarea, [contenteditable]")) return;
    if (target.matches("input") && (target.type !== "range" || SLIDER_KEYS.includes(event.key))) return;
    if (target.matches("button, summary") && event.key === " ") return; // the button's own key
    if (target.matches("span[role=button]") && (event.key === "Enter" || event.key === " ")) {
      event.preventDefault();
      on.choose(target);
      return;
    }
    const action = actions[event.key];
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
