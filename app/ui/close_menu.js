/** Closes the menu that lies over the page on a phone once it has led to another page.
 *
 * @param {{data: {button: string, place: string}}} given
 */
export default function ({ data }) {
  const { dataset } = document.documentElement;
  const before = dataset.place;
  dataset.place = data.place;
  if (before === undefined || before === data.place || !matchMedia("(max-width: 768px)").matches) return;
  const button = document.querySelector(data.button);
  if (button instanceof HTMLElement) button.click();
}
