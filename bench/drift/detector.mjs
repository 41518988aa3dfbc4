// Plugs the drift detector into a scorer that calls detect(events) and attribute(events) on rows of trace files.
// Usage: node <scorer> bench/drift/detector.mjs
import { importSource } from '../../scripts/import-source.mjs';
import { attribute as attributeRun } from './attribute.mjs';
import { toDriftEvents } from './events.mjs';

const { DriftDetector } = await importSource('runtime/drift/index.ts');
const { textOf } = await importSource('runtime/drift/step/drift-event.ts');

/** Weaker evidence does not name a step. */
const MIN_STEP_NATS = 1;
/** People call a step a repetition when it comes right after one that is this much the same, whatever it brings. */
const MIN_REPEATED = 0.9;
/** Of a longer input only the beginning is compared. */
const MAX_CHARS = 4000;
/** What is named step by step: failures and stalls are named once. */
const NAMED_KIND = 'loop';
/** A goal may be left and taken up again: only what holds at the end counts. All else counts once it was alarming. */
const FINAL_KINDS = ['goal'];
/** Kinds that are signs of going in circles. */
const REPEATING_KINDS = ['loop', 'stall', 'error'];

export function detect(rows) {
  const detector = new DriftDetector();
  const events = toDriftEvents(rows);
  const watch = new Watch(events);
  for (const [index, event] of events.entries()) {
    if (event.kind === 'call') watch.read(event, index);
    watch.see(detector.observe(event));
  }
  return watch.finish();
}

export function attribute(rows) {
  const found = attributeRun(toDriftEvents(rows));
  return found === undefined ? {} : { step: found.step, agent: found.agent };
}

/** Follows the assessments of one run. */
class Watch {
  #alarmed = new Map();
  #peaks = {};
  #loopSum = 0;
  #steps = new Set();
  #last;
  #evidence;
  #events;
  #lastCall;

  constructor(events) {
    this.#events = events;
  }

  /** Names a call that repeats the one right before it. */
  read({ name, input }, index) {
    const words = new Set(
      textOf(input)
        .slice(0, MAX_CHARS)
        .toLowerCase()
        .match(/[\p{L}\p{N}_]+/gu),
    );
    const last = this.#lastCall;
    if (name === last?.name && shareOf(words, last.words) >= MIN_REPEATED) this.#steps.add(index);
    this.#lastCall = { name, words };
  }

  see(assessment) {
    this.#last = assessment;
    const { scores, onset, index } = assessment;
    this.#loopSum += scores.loop ?? 0;
    for (const kind in scores) {
      this.#peaks[kind] = Math.max(this.#peaks[kind] ?? 0, scores[kind]);
      if (scores[kind] >= 1 && !this.#alarmed.has(kind)) this.#alarmed.set(kind, onset ?? index);
    }
    if (assessment.evidence !== this.#evidence) this.#note(assessment.evidence);
  }

  finish() {
    const final = this.#last?.scores ?? {};
    for (const kind of FINAL_KINDS) if ((final[kind] ?? 0) < 1) this.#alarmed.delete(kind);
    const alarmed = [...this.#alarmed];
    // A repeated step is worth naming without an alarm, but not beside one of another kind.
    const isNamed = alarmed.length === 0 || alarmed.some(([kind]) => REPEATING_KINDS.includes(kind));
    const signals = isNamed ? Array.from(this.#steps, (step) => ({ kind: NAMED_KIND, step })) : [];
    const unnamed = alarmed.filter(([kind]) => kind !== NAMED_KIND || signals.length === 0);
    return {
      drift: alarmed.length > 0,
      step: alarmed.length > 0 ? Math.min(...this.#alarmed.values()) : undefined,
      agent: this.#last?.agent,
      scores: this.#scores(final),
      signals: [...signals, ...unnamed.map(([kind, step]) => ({ kind, step }))],
    };
  }

  #note(evidence) {
    this.#evidence = evidence;
    for (const { kind, steps, nats } of evidence)
      if (kind === NAMED_KIND && nats >= MIN_STEP_NATS && this.#isClose(steps)) this.#steps.add(steps.at(-1));
  }

  #isClose(steps) {
    const between = this.#events.slice(steps[0] + 1, steps.at(-1)).filter(({ kind }) => kind === 'call');
    return between.length === 0;
  }

  /** To rank runs by: how much stood against the agent for a loop on average; of the rest the worst account, or the last. */
  #scores(final) {
    return { loop: this.#loopSum / this.#events.length, stall: this.#peaks.stall ?? 0, goal: final.goal ?? 0 };
  }
}

/** What part of all the words of two texts both have. */
function shareOf(words, others) {
  let both = 0;
  for (const word of words) if (others.has(word)) both++;
  const all = words.size + others.size - both;
  return all === 0 ? 1 : both / all;
}
