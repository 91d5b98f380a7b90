/** Gives the document the colour scheme of the theme, now and whenever the theme changes, as the system's may at any time.
 *
 * @param {{data: {app: string}}} given
 */
export default function ({ data }) {
  const app = document.querySelector(data.app);
  if (!app) return;
  const follow = () => {
    document.documentElement.style.colorScheme = getComputedStyle(app).colorScheme;
  };
  const observer = new MutationObserver(follow);
  observer.observe(app, { attributes: true, attributeFilter: ["class", "style"] });
  follow();
  return () => observer.disconnect();
}
