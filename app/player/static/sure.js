/**
 * `value`, which is there: said where the code knows it and the types cannot. Nothing happens when the player runs.
 * @template Value
 * @param {Value|null|undefined} value
 * @returns {Value}
 */
export function sure(value) {
  return /** @type {Value} */ (value);
}
