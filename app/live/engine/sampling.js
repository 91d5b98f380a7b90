/** From distributions to tokens: draws and residuals, with sums where the decoder has them. */

/** The token at which the cumulative distribution passes `uniform`; one of probability 0 is never drawn. @param {Float32Array} probs @param {number} uniform */
export function draw(probs, uniform) {
  let total = 0;
  for (const prob of probs) total += prob;
  const target = total * uniform;
  let sum = 0;
  for (let token = 0; token < probs.length; token++) {
    sum += probs[token];
    if (sum > target || sum >= total) return token;
  }
  return probs.length - 1;
}

/** norm(max(0, p − q)); p where rounding leaves nothing. @param {Float32Array} p @param {Float32Array|number} q a distribution, or the token of a point mass */
export function residual(p, q) {
  const rest = p.slice();
  if (typeof q === "number") rest[q] = 0;
  else for (let token = 0; token < rest.length; token++) rest[token] = Math.max(0, p[token] - q[token]);
  let mass = 0;
  for (const value of rest) mass += value;
  if (mass <= 0) return p;
  for (let token = 0; token < rest.length; token++) rest[token] /= mass;
  return rest;
}

/** @param {Float32Array} probs @returns {number} entropy in nats */
export function entropy(probs) {
  let sum = 0;
  for (const prob of probs) if (prob > 0) sum -= prob * Math.log(prob);
  return sum;
}

/** @param {Float32Array} scores the first of equal ones */
export function best(scores) {
  let found = 0;
  for (let token = 1; token < scores.length; token++) if (scores[token] > scores[found]) found = token;
  return found;
}
