// Plugs the drift detector into a scorer that calls detect(events) and attribute(events) on rows of trace files.
// Usage: node <scorer> bench/drift/detector.mjs
import { importSource } from '../../scripts/import-source.mjs';
import { attribute as attributeRun } from './attribute.mjs';
import { toDriftEvents } from './events.mjs';

const { DriftDetector } = await importSource('runtime/drift/index.ts');
const { textOf } = await importSource('runtime/drift/step/drift-event.ts');
const { resemblance, sketchText } = await importSource('runtime/drift/step/text-sketch.ts');

/** Calls that a call is compared with. */
const MAX_CALLS = 6;
/** How alike two calls are counts for how likely three words of the one all stand in the other: half the words say little. */
const WORDS_AT_ONCE = 3;
/** What is named step by step, and where it becomes an alarm: failures and stalls are named where they began. */
const NAMED_KIND = 'loop';
/** A goal may be left and taken up again: only what holds at the end counts. All else counts once it was alarming. */
const FINAL_KINDS = ['goal'];
/** Kinds that are signs of going in circles. */
const REPEATING_KINDS = ['loop', 'stall', 'error'];

export function detect(rows) {
  const detector = new DriftDetector();
  const events = toDriftEvents(rows);
  const watch = new Watch();
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
  #steps = new Set();
  #last;
  #calls = [];
  #likeness = [];

  /** Names a call that has the words of the one right before it (so do people, whatever it returns), and notes how much it repeats any. */
  read({ agent, name, input }, index) {
    const { words, hash } = sketchText(textOf(input)).sketch;
    const alike = (call) => (call?.name !== name ? 0 : call.hash === hash ? 1 : resemblance(call.words, words));
    if (alike(this.#calls.at(-1)) === 1) this.#steps.add(index);
    const own = this.#calls.filter((call) => call.agent === agent).map(alike);
    this.#likeness.push(Math.max(0, ...own) ** WORDS_AT_ONCE);
    this.#calls = [...this.#calls, { agent, name, words, hash }].slice(-MAX_CALLS);
  }

  see(assessment) {
    this.#last = assessment;
    const { scores, onset, index } = assessment;
    for (const kind in scores) {
      this.#peaks[kind] = Math.max(this.#peaks[kind] ?? 0, scores[kind]);
      if (scores[kind] < 1 || this.#alarmed.has(kind)) continue;
      this.#alarmed.set(kind, onset ?? index);
      if (kind === NAMED_KIND) this.#steps.add(index);
    }
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

  /** To rank runs by: how much the calls repeat others on average; of the rest the worst account, or the last. */
  #scores(final) {
    const sum = this.#likeness.reduce((all, one) => all + one, 0);
    return { loop: sum / Math.max(1, this.#likeness.length), stall: this.#peaks.stall ?? 0, goal: final.goal ?? 0 };
  }
}
