/** Whether a measured speedup is more than the scatter of its rounds; as in specdec_measure/analysis/diagnosis.py. */

/** @import { Round } from "./model.js" */

const LASTING = 1.5; // times the error of single rounds: chance alone brings blocks there about once in twenty
const NORMAL_95 = 1.959964; // standard deviations on either side that hold 95% of a normal distribution

/**
 * Whether the speedup's 95% interval lies on one side of 1.
 * @param {number} speedup
 * @param {Round[]} one the rounds of one lane
 * @param {Round[]} other those of the lane that it is compared with
 */
export function isSignificant(speedup, one, other) {
  return Math.abs(Math.log(speedup)) > NORMAL_95 * Math.hypot(scatter(one), scatter(other));
}

/**
 * The relative standard error of the mean round time: that of single rounds, or that of blocks of them if these scatter
 * clearly more, as other work on the machine slows several rounds in turn.
 * @param {Round[]} rounds
 */
function scatter(rounds) {
  const times = rounds.map(({ times: { start, end } }) => end - start);
  const size = Math.floor(Math.sqrt(times.length));
  const blocks = Array.from({ length: size && Math.floor(times.length / size) }, (_, at) =>
    mean(times.slice(at * size, (at + 1) * size)),
  );
  const middle = mean(times);
  const [single, lasting] = [error(times), error(blocks)];
  return middle > 0 ? (lasting > LASTING * single ? lasting : single) / middle : 0;
}

/** @param {number[]} values */
function mean(values) {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

/**
 * The standard error of their mean; 0 of fewer than two.
 * @param {number[]} values
 */
function error(values) {
  const middle = mean(values);
  const squares = values.reduce((sum, value) => sum + (value - middle) ** 2, 0);
  return values.length > 1 ? Math.sqrt(squares / (values.length - 1) / values.length) : 0;
}
