// Plugs the drift detector into a scorer that calls detect(events) and attribute(events) on rows of trace files.
// Usage, after `npm run build`: node <scorer> bench/drift/detector.mjs
import { DriftDetector } from '../../dist/runtime/drift/index.js';
import { attribute as attributeRun } from './attribute.mjs';
import { toDriftEvents } from './events.mjs';

/** Weaker evidence does not name a step. */
const MIN_STEP_NATS = 1;
/** People call a step a repetition when it comes right after: with at most so many other calls in between. */
const MAX_CALLS_BETWEEN = 0;
/** A goal may be left and taken up again: only what holds at the end counts. All else counts once it was alarming. */
const FINAL_KINDS = ['goal'];

export function detect(rows) {
  const detector = new DriftDetector();
  const events = toDriftEvents(rows);
  const watch = new Watch(events);
  for (const event of events) watch.see(detector.observe(event));
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
  #steps = new Map();
  #last;
  #evidence;
  #events;

  constructor(events) {
    this.#events = events;
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
    const signals = [...this.#steps.values()].filter(({ kind }) => this.#alarmed.has(kind));
    const unnamed = alarmed.filter(([kind]) => !signals.some((signal) => signal.kind === kind));
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
    for (const { kind, steps, nats } of evidence) {
      if (nats >= MIN_STEP_NATS && this.#isClose(steps))
        this.#steps.set(`${kind} ${steps.at(-1)}`, { kind, step: steps.at(-1), score: nats });
    }
  }

  #isClose(steps) {
    const between = this.#events.slice(steps[0] + 1, steps.at(-1)).filter(({ kind }) => kind === 'call');
    return between.length <= MAX_CALLS_BETWEEN;
  }

  /** To rank runs by: how much stood against the agent for a loop on average; of the rest the worst account, or the last. */
  #scores(final) {
    return { loop: this.#loopSum / this.#events.length, stall: this.#peaks.stall ?? 0, goal: final.goal ?? 0 };
  }
}
