import { z } from 'zod';
import type { ReadEvent } from '../step/drift-event.ts';
import { count, mapOf, remember, type SignalFinding, signal, text } from '../step/signal.ts';
import type { StepReading } from '../step/step.ts';

/** A step of which less is new than this has brought nothing. */
const MIN_NOVELTY = 0.3;
const IDLE_NATS = 0.4;
/** Agents that are remembered, by each signal that tells them apart. */
const MAX_AGENTS = 64;
/** Cycles in a row without a call that may leave a state as it was there before; more of them are evidence. */
const MAX_IDLE_CYCLES = 4;
/** An equal state is a fact, so it counts for more than a step of which little is new. */
const IDLE_CYCLE_NATS = 1.2;
/** States that are remembered: an agent may go round through as many. */
const MAX_STATES = 16;

const idleCycles = z.object({ states: z.array(text).optional(), count, since: count });
type IdleCycles = z.infer<typeof idleCycles>;

const idleMemory = z.object({
  /** Agent, number of idle steps, and the first of them; whose was put there last comes last. */
  idle: z.array(z.tuple([text, count, count])),
  cycles: idleCycles.default({ count: 0, since: 0 }),
});

/** Speaks when steps bring nothing new, or when cycles without a call leave the state exactly as it was before. */
export const idleSteps = signal({
  kind: 'stall',
  memory: { form: idleMemory, begin: () => ({ idle: [], cycles: { count: 0, since: 0 } }) },
  observe({ event, reading, options }, state) {
    state.cycles = countCycles(state.cycles, event);
    if (event.kind === 'cycle')
      return state.cycles.count > MAX_IDLE_CYCLES ? describeCycles(state.cycles, event) : undefined;
    if (reading?.isComplete !== true || reading.step.kind !== 'call') return undefined;
    return countStep(state, reading, options.maxIdleSteps);
  },
});

function countStep(
  state: z.infer<typeof idleMemory>,
  { step }: StepReading,
  maxIdleSteps: number,
): SignalFinding | undefined {
  const { agent, index } = step;
  const [, before = 0, since = index] = state.idle.find(([idle]) => idle === agent) ?? [];
  const others = state.idle.filter(([idle]) => idle !== agent);
  if ((step.resultNovelty ?? step.inputNovelty) >= MIN_NOVELTY) {
    state.idle = others;
    return { agent, nats: -IDLE_NATS, steps: [index], reason: 'The step brought something new.' };
  }
  const steps = before + 1;
  state.idle = [...others, [agent, steps, since] as [string, number, number]].slice(-MAX_AGENTS);
  if (steps <= maxIdleSteps) return undefined;
  const reason = `${agent} has made ${steps} calls since event ${since} that brought nothing new.`;
  return { agent, nats: IDLE_NATS, steps: [since, index], reason };
}

/** How many cycles in a row led nowhere new. An agent that makes calls is judged by them, and one that is spoken to may listen. */
function countCycles(cycles: IdleCycles, { kind, isAgent, stateDigest, index }: ReadEvent): IdleCycles {
  if (kind === 'call' || (kind === 'message' && !isAgent)) return { count: 0, since: index };
  if (kind !== 'cycle' || stateDigest === undefined) return cycles;
  const { states = [] } = cycles;
  if (states.includes(stateDigest)) return { ...cycles, count: cycles.count + 1 };
  return { states: [...states, stateDigest].slice(-MAX_STATES), count: 0, since: index };
}

function describeCycles({ count, since }: IdleCycles, { agent, index }: ReadEvent): SignalFinding {
  const reason = `The last ${count} cycles of ${agent} changed nothing: the state is one of those up to event ${since}.`;
  return { agent, nats: IDLE_CYCLE_NATS, steps: [since, index], reason };
}

const EXTRA_CYCLE_NATS = 0.25;

/** Speaks when more cycles have begun than the task was expected to take. Silent unless a number is expected. */
export const cycleCount = signal({
  kind: 'stall',
  memory: { form: z.object({ count }), begin: () => ({ count: 0 }) },
  observe({ event, options: { expectedCycles = Infinity } }, state) {
    if (event.kind === 'goal') state.count = 0;
    if (event.kind !== 'cycle') return undefined;
    state.count++;
    if (state.count <= expectedCycles) return undefined;
    const reason = `Cycle ${state.count} of a task that was expected to take ${expectedCycles}.`;
    return { agent: event.agent, nats: EXTRA_CYCLE_NATS, steps: [event.index], reason };
  },
});

/** Of ten steps of an agent that is lost seven fail; of a healthy one, one or two. Wald's ratio of the two, per step. */
const LOST_ERROR_RATE = 0.7;
const HEALTHY_ERROR_RATE = 0.15;
const ERROR_NATS = Math.log(LOST_ERROR_RATE / HEALTHY_ERROR_RATE);
const SUCCESS_NATS = Math.log((1 - LOST_ERROR_RATE) / (1 - HEALTHY_ERROR_RATE));

/** Speaks when an agent's steps fail more often than a healthy agent's. */
export const errorRate = signal({
  kind: 'error',
  memory: {
    form: z.object({ lastErrors: mapOf(z.object({ index: count, kind: z.enum(['call', 'message']) })) }),
    begin: () => ({ lastErrors: new Map() }),
  },
  observe({ event, reading }, { lastErrors }) {
    if (reading === undefined || !reading.isComplete) return undefined;
    const { step } = reading;
    // A call without a result says nothing of its success.
    if (step.kind === 'call' && step.result === undefined) return undefined;
    const before = lastErrors.get(step.agent);
    if (!step.isError) {
      // Talking about failed calls is no success; only what failed can succeed.
      if (before !== undefined && before.kind !== step.kind) return undefined;
      return { agent: step.agent, nats: SUCCESS_NATS, steps: [step.index], reason: 'The step succeeded.' };
    }
    // Calls made at once fail at once: only a failure after a known failure shows that nothing was learnt from it.
    if (before !== undefined && step.index < before.index) return undefined;
    remember(lastErrors, [step.agent, { index: event.index, kind: step.kind }], MAX_AGENTS);
    return { agent: step.agent, nats: ERROR_NATS, steps: [step.index], reason: `The step of ${step.agent} failed.` };
  },
});

/** Durations before the usual one is known. */
const MIN_CYCLES = 8;
/** Weight of the newest duration in the moving mean: the last twenty or so count. */
const WEIGHT = 0.1;
/** Durations differ by a factor of 1.6 without meaning anything. */
const MIN_DEVIATION = 0.5;
const UNUSUAL_DEVIATIONS = 2.5;
const NATS_PER_DEVIATION = 0.8;
const MAX_NATS = 2;
const USUAL_NATS = -0.4;

const durations = z.object({
  lastAt: z.number().optional(),
  lastIndex: count,
  count,
  mean: z.number(),
  variance: z.number().nonnegative(),
  hasCycles: z.boolean(),
});
type Durations = z.infer<typeof durations>;

const UNKNOWN: Durations = { lastAt: undefined, lastIndex: 0, count: 0, mean: 0, variance: 0, hasCycles: false };

/** Speaks when cycles take much longer than they used to. Needs `at`; goes by `cycle` events, or by calls where there are none. */
export const cycleTime = signal({
  kind: 'time',
  memory: { form: durations, begin: () => ({ ...UNKNOWN }) },
  observe({ event }, memory) {
    if (event.kind === 'cycle' && !memory.hasCycles) Object.assign(memory, UNKNOWN, { hasCycles: true });
    if (event.at === undefined || event.kind !== (memory.hasCycles ? 'cycle' : 'call')) return undefined;
    const { lastAt, lastIndex } = memory;
    Object.assign(memory, { lastAt: event.at, lastIndex: event.index });
    if (lastAt === undefined || event.at < lastAt) return undefined;
    const durationMs = event.at - lastAt;
    const deviations = deviationsOf(memory, durationMs);
    const usualMs = Math.expm1(memory.mean);
    learn(memory, durationMs);
    if (deviations === undefined) return undefined;
    const isUnusual = deviations > UNUSUAL_DEVIATIONS;
    const nats = isUnusual ? Math.min(MAX_NATS, NATS_PER_DEVIATION * (deviations - 1)) : USUAL_NATS;
    const reason = `The cycle took ${Math.round(durationMs)} ms; usual are about ${Math.round(usualMs)} ms.`;
    return { agent: event.agent, nats, steps: [lastIndex, event.index], reason };
  },
});

function deviationsOf({ count, mean, variance }: Durations, durationMs: number): number | undefined {
  if (count < MIN_CYCLES) return undefined;
  return (Math.log1p(durationMs) - mean) / Math.max(MIN_DEVIATION, Math.sqrt(variance));
}

/** Durations spread over orders of magnitude, so their logarithms are averaged. */
function learn(memory: Durations, durationMs: number): void {
  const off = limitOff(memory, Math.log1p(durationMs) - memory.mean);
  memory.count++;
  const weight = Math.max(WEIGHT, 1 / memory.count);
  memory.mean += weight * off;
  memory.variance = (1 - weight) * (memory.variance + weight * off * off);
}

/** One long cycle must not make the next long one usual. */
function limitOff({ count, variance }: Durations, off: number): number {
  if (count < MIN_CYCLES) return off;
  return Math.min(off, UNUSUAL_DEVIATIONS * Math.max(MIN_DEVIATION, Math.sqrt(variance)));
}

/** From here on models lose what is in the middle of their context. */
const CROWDED_SHARE = 0.8;
const CROWDED_NATS = 0.6;
/** A context that shrinks by this much was cut or condensed. */
const CUT_SHARE = 0.7;
/** Cuts that follow each other within so many sizes show that the context fills up faster than work gets done. */
const MAX_SIZES_BETWEEN_CUTS = 12;
const CUT_NATS = 1.6;
const ROOMY_NATS = -0.3;

const contextSizes = z.object({ tokens: z.number(), sizesSinceCut: count, cutIndex: count.optional() });

/** Speaks when the context is nearly full, or is condensed again soon after it was. Needs `contextTokens`. */
export const contextGrowth = signal({
  kind: 'context',
  memory: {
    form: contextSizes,
    begin: () => ({ tokens: 0, sizesSinceCut: Number.MAX_SAFE_INTEGER, cutIndex: undefined }),
  },
  observe({ event, options: { contextLimitTokens } }, memory) {
    const { agent, index, contextTokens: tokens } = event;
    if (tokens === undefined) return undefined;
    const before = { ...memory };
    const wasCut = tokens < before.tokens * CUT_SHARE;
    memory.tokens = tokens;
    memory.sizesSinceCut = wasCut ? 0 : Math.min(before.sizesSinceCut + 1, Number.MAX_SAFE_INTEGER);
    if (wasCut) memory.cutIndex = index;
    if (wasCut && before.cutIndex !== undefined && before.sizesSinceCut <= MAX_SIZES_BETWEEN_CUTS) {
      const reason = `The context was cut from ${before.tokens} to ${tokens} tokens, only ${before.sizesSinceCut + 1} events after the last cut.`;
      return { agent, nats: CUT_NATS, steps: [before.cutIndex, index], reason };
    }
    const reason = `The context holds ${tokens} of ${contextLimitTokens} tokens.`;
    if (tokens / contextLimitTokens >= CROWDED_SHARE) return { agent, nats: CROWDED_NATS, steps: [index], reason };
    // Between two quick cuts the context is roomy by construction; that is no relief.
    const isRelief = memory.sizesSinceCut > MAX_SIZES_BETWEEN_CUTS;
    return isRelief ? { agent, nats: ROOMY_NATS, steps: [index], reason } : undefined;
  },
});
