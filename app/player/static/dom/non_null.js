/**
 * `value`, known to be present where the types cannot show it. Does nothing at run time.
 * @template Value
 * @param {Value|null|undefined} value
 * @returns {Value}
 */
export function nonNull(value) {
  return /** @type {Value} */ (value);
}
