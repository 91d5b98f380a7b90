/** The way back leads to the page before, as it was left.
 *
 * Streamlit makes a place of the browser's history of everything it writes into a page's address, and of the empty address
 * that a page has for a moment as it is left. Here what is written replaces what the address was, and the page that
 * follows takes the place of the empty one.
 */
export default function () {
  const { dataset } = document.documentElement;
  if (dataset.wayBack) return; // done
  dataset.wayBack = "led";
  const [push, replace] = [history.pushState, history.replaceState];
  let emptied = false; // whether this place began as the empty address of a page that is being left
  addEventListener("popstate", () => (emptied = false));
  history.pushState = function (state, title, url) {
    const next = new URL(url ?? location.href, location.href);
    const same = next.pathname === location.pathname;
    const empties = same && !next.search && location.search !== "";
    const takes = same ? !empties : emptied;
    emptied = empties || (same && emptied); // the next page may write before its name is there
    (takes ? replace : push).call(history, state, title, url);
  };
}
