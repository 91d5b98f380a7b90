/** Gives the document the colour scheme of the theme, now and whenever the theme changes, as the system's may at any time. */

let known = ""; // of the page as it was drawn last

/** @param {{data: {app: string}, setTriggerValue: (name: string, value: string) => void}} given */
export default function ({ data, setTriggerValue }) {
  const app = document.querySelector(data.app);
  if (!app) return;
  const follow = () => {
    const scheme = getComputedStyle(app).colorScheme;
    document.documentElement.style.colorScheme = scheme;
    const changed = known && scheme !== known;
    known = scheme;
    if (changed) setTriggerValue("changed", scheme); // the server gives the charts' text its colour
  };
  const observer = new MutationObserver(follow);
  observer.observe(app, { attributes: true, attributeFilter: ["class", "style"] });
  follow();
  return () => observer.disconnect();
}
