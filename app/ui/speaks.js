/** Names the language of the page, for screen readers and hyphenation; English again where this is no longer drawn.
 *
 * @param {{data: {language: string}}} given
 */
export default function ({ data }) {
  document.documentElement.lang = data.language;
  return () => {
    document.documentElement.lang = "en";
  };
}
