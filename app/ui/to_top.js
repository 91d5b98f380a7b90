/** Takes the page, and the keyboard with it, to the top whenever `place` changes.
 *
 * Streamlit calls this on each change of the data. The page's main part keeps what it showed; the keyboard goes there as
 * well, so that Tab and the arrow keys begin with what is new.
 *
 * @param {{data: {main: string, place: string}}} given
 */
export default function ({ data }) {
  const main = document.querySelector(data.main);
  if (!(main instanceof HTMLElement) || main.dataset.place === data.place) return;
  const before = main.dataset.place;
  main.dataset.place = data.place;
  if (before === undefined) return;
  main.scrollTop = 0;
  main.focus({ preventScroll: true, focusVisible: false });
}
