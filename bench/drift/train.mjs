// Trains the optional logistic model of the drift detector and prints its weights and cross-validated figures.
// Usage, after `npm run build`: node bench/drift/train.mjs <folder with *.jsonl traces>
// Each line: { id, source, group?, tracks, events, labels: { loop?: boolean, stall?: boolean } }.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DriftDetector } from '../../dist/runtime/drift/index.js';
import { toDriftEvents } from './events.mjs';

const FOLDS = 10;
const ROUNDS = 3000;
const RATE = 0.3;
/** Strong, because there are few traces: weights stay near zero unless the data insists. */
const SHRINKAGE = 0.02;
/** Which way a feature may speak. With few traces a weight of the wrong sign is chance, so it is held at zero. */
const SIGNS = {
  redundancy: 1,
  insistence: 1,
  equalCalls: 1,
  errors: 1,
  resultNovelty: -1,
  messageNovelty: -1,
  messageSimilarity: 1,
};
/** Length is measured, to be printed, but never learnt: a counter of steps tells a loop from nothing. */
const UNTRAINED = new Set(['length']);

const folder = process.argv[2];
if (folder === undefined) {
  console.error('usage: node bench/drift/train.mjs <folder>');
  process.exit(2);
}
const rows = readdirSync(folder)
  .filter((name) => name.endsWith('.jsonl'))
  .sort()
  .flatMap((name) => readFileSync(join(folder, name), 'utf8').split('\n').filter(Boolean))
  .map((line) => JSON.parse(line))
  .flatMap(toRow);
const names = Object.keys(rows[0].features).filter((name) => !UNTRAINED.has(name));

/** A trace is a row if people said whether it got nowhere; healthy control traces count as such. */
function toRow({ source, group, tracks, events, labels }, at) {
  const label = labels.loop ?? labels.stall ?? (tracks.includes('control') ? false : undefined);
  if (typeof label !== 'boolean' || tracks.includes('conformance')) return [];
  const detector = new DriftDetector();
  for (const event of toDriftEvents(events)) detector.observe(event);
  return [{ source, group: group ?? String(at), label, length: events.length, features: detector.features() }];
}

function learn(train) {
  const scale = names.map((name) => {
    const values = train.map(({ features }) => features[name]);
    const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
    const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length;
    return { mean, deviation: Math.max(0.02, Math.sqrt(variance)) };
  });
  const inputs = train.map(({ features }) =>
    names.map((name, k) => (features[name] - scale[k].mean) / scale[k].deviation),
  );
  const weights = names.map(() => 0);
  let bias = 0;
  for (let round = 0; round < ROUNDS; round++) {
    const slope = names.map(() => 0);
    let biasSlope = 0;
    for (const [at, row] of train.entries()) {
      const error = sigmoid(bias + dot(weights, inputs[at])) - Number(row.label);
      biasSlope += error / train.length;
      for (const k of slope.keys()) slope[k] += (error * inputs[at][k]) / train.length;
    }
    bias -= RATE * biasSlope;
    for (const [k, name] of names.entries()) {
      const weight = weights[k] - RATE * (slope[k] + SHRINKAGE * weights[k]);
      weights[k] = weight * SIGNS[name] < 0 ? 0 : weight;
    }
  }
  const raw = weights.map((weight, k) => weight / scale[k].deviation);
  return {
    bias: bias - raw.reduce((sum, weight, k) => sum + weight * scale[k].mean, 0),
    weights: Object.fromEntries(names.map((name, k) => [name, raw[k]])),
  };
}

const sigmoid = (value) => 1 / (1 + Math.exp(-value));
const dot = (a, b) => a.reduce((sum, value, k) => sum + value * b[k], 0);
const predict = (model, features) =>
  sigmoid(model.bias + names.reduce((sum, name) => sum + model.weights[name] * features[name], 0));

/** Traces of one task fall into one fold, so that nothing is tested on what it was trained on. */
function crossValidate() {
  const groups = [...new Set(rows.map(({ group }) => group))].sort();
  const foldOf = new Map(groups.map((group, at) => [group, at % FOLDS]));
  return Array.from({ length: FOLDS }, (_, fold) => {
    const model = learn(rows.filter(({ group }) => foldOf.get(group) !== fold));
    return rows
      .filter(({ group }) => foldOf.get(group) === fold)
      .map((row) => ({ ...row, probability: predict(model, row.features) }));
  }).flat();
}

function pairShare(list, isPair) {
  let won = 0;
  let count = 0;
  for (const a of list.filter(({ label }) => label)) {
    for (const b of list.filter(({ label }) => !label)) {
      if (!isPair(a, b)) continue;
      count++;
      won += a.probability > b.probability ? 1 : a.probability === b.probability ? 0.5 : 0;
    }
  }
  return { auc: won / count, pairs: count };
}

function mcc(list) {
  const count = (label, said) => list.filter((row) => row.label === label && row.probability >= 0.5 === said).length;
  const [tp, fp, fn, tn] = [count(true, true), count(false, true), count(true, false), count(false, false)];
  const below = Math.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn));
  return { mcc: below === 0 ? 0 : (tp * tn - fp * fn) / below, tp, fp, fn, tn };
}

const held = crossValidate();
const isMatched = (a, b) => a.source === b.source && Math.max(a.length / b.length, b.length / a.length) <= 1.5;
console.log('rows', rows.length, 'positive', rows.filter(({ label }) => label).length);
console.log(
  'cross-validated',
  mcc(held),
  'AUC',
  pairShare(held, () => true),
  'length-matched',
  pairShare(held, isMatched),
);
console.log(
  'weights',
  JSON.stringify(learn(rows), (_key, value) => (typeof value === 'number' ? +value.toFixed(3) : value), 2),
);
