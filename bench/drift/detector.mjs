// Plugs the drift detector into a scorer that calls detect(events) and attribute(events) on rows of trace files.
// Usage: node <scorer> bench/drift/detector.mjs
import { importSource } from '../../scripts/import-source.mjs';
import { attribute as attributeRun } from './attribute.mjs';
import { toDriftEvents } from './events.mjs';

const { DriftDetector } = await importSource('runtime/drift/index.ts');

/** What is named step by step, and where it becomes an alarm: failures and stalls are named where they began. */
const NAMED_KIND = 'loop';
/** A goal may be left and taken up again, and a team may get on again: only what holds at the end counts. All else counts once it was alarming. */
const FINAL_KINDS = ['goal', 'stall'];
/** Kinds that are signs of going in circles. */
const REPEATING_KINDS = ['loop', 'stall', 'error'];

export function detect(rows) {
  const detector = new DriftDetector();
  const events = toDriftEvents(rows);
  const watch = new Watch();
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
  #steps = new Set();
  #last;

  see(assessment) {
    this.#last = assessment;
    const { scores, onset, index, repeats } = assessment;
    // So do people, whatever the call returns.
    if (repeats !== undefined) this.#steps.add(index);
    for (const kind in scores) {
      if (scores[kind] < 1 || this.#alarmed.has(kind)) continue;
      this.#alarmed.set(kind, onset ?? index);
      if (kind === NAMED_KIND) this.#steps.add(index);
    }
  }

  finish() {
    const ranks = ranksOf(this.#last);
    for (const kind of FINAL_KINDS) if (ranks[kind] < 1) this.#alarmed.delete(kind);
    const alarmed = [...this.#alarmed];
    // A repeated step is worth naming without an alarm, but not beside one of another kind.
    const isNamed = alarmed.length === 0 || alarmed.some(([kind]) => REPEATING_KINDS.includes(kind));
    const signals = isNamed ? Array.from(this.#steps, (step) => ({ kind: NAMED_KIND, step })) : [];
    const unnamed = alarmed.filter(([kind]) => kind !== NAMED_KIND || signals.length === 0);
    return {
      drift: alarmed.length > 0,
      ...(alarmed.length > 0 && { step: Math.min(...this.#alarmed.values()) }),
      agent: this.#last?.agent,
      scores: isNamed && alarmed.length > 0 ? { ...ranks, loop: ranks.loop + 1 } : ranks,
      signals: [...signals, ...unnamed.map(([kind, step]) => ({ kind, step }))],
    };
  }
}

/** To rank runs by: how much the calls repeat others (with an alarm before all without), and what holds at the end. */
function ranksOf({ repetitiveness = 0, scores: { stall = 0, goal = 0 } = {} } = {}) {
  return { loop: repetitiveness, stall, goal };
}
