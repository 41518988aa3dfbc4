import { z } from 'zod';
import type { ReadEvent } from '../step/drift-event.ts';
import { count, type SignalFinding, type SignalOptions, signal, text } from '../step/signal.ts';
import type { StepReading } from '../step/step.ts';
import { addName, endTeam, hearTeam, judgeTeam, percent, renewTeam, teamTalk } from './team.ts';

const idleCycles = z.object({ states: z.array(text), count, since: count, cycles: count });

const stallMemory = z.object({
  /** Agents whose last step was a call. */
  acting: z.array(text),
  /** Agents that set tasks for others. */
  givers: z.array(text),
  hasTakers: z.boolean(),
  /** When a person last spoke. */
  spokenTo: count,
  team: teamTalk.optional(),
  idle: idleCycles,
});
type StallMemory = z.infer<typeof stallMemory>;

/**
 * Speaks when an agent learns nothing new: by its calls if it makes calls, by its messages if it works by talking, and by its
 * state if it does neither.
 */
export const stall = signal({
  kind: 'stall',
  memory: {
    form: stallMemory,
    begin: () => ({
      acting: [],
      givers: [],
      hasTakers: false,
      spokenTo: 0,
      idle: { states: [], count: 0, since: 0, cycles: 0 },
    }),
  },
  observe({ event, reading, options }, state) {
    hearGoal(state, event);
    if (event.kind === 'cycle') return judgeCycle(state, event, options);
    if (event.kind === 'call') state.acting = addName(state.acting, event.agent);
    const isSpokenTo = event.kind === 'message' && !event.isAgent;
    if (isSpokenTo) state.spokenTo = event.index;
    if (event.kind === 'call' || isSpokenTo) restart(state, event);
    const before = state.team;
    state.team = renewTeam(before, event);
    return judgeStep(state, reading, options) ?? endTeam(before, state.team, event);
  },
});

function judgeStep(state: StallMemory, reading: StepReading | undefined, options: SignalOptions) {
  if (reading === undefined || !reading.isComplete) return undefined;
  return reading.step.kind === 'call' ? judgeCall(reading, options) : judgeTalk(state, reading);
}

function hearGoal(state: StallMemory, { kind, agent, isAgent }: ReadEvent): void {
  if (kind !== 'goal') return;
  state.idle.cycles = 0;
  if (isAgent) state.givers = addName(state.givers, agent);
}

/** A result with no more new words than this has brought nothing: it echoes the call, or says "none". */
const MAX_IDLE_WORDS = 5;
/** What the longest row of idle calls that may be adds up to: an alarm at the default. */
const IDLE_ROW_NATS = 4.6;

function judgeCall(reading: StepReading, options: SignalOptions): SignalFinding | undefined {
  const { agent, name, index, result } = reading.step;
  if (result === undefined) return undefined;
  const isIdle = reading.foundWords <= MAX_IDLE_WORDS && !isWork(reading);
  const nats = IDLE_ROW_NATS / options.maxIdleSteps;
  const reason = isIdle ? `The call of "${name}" brought nothing new.` : `The call of "${name}" brought something new.`;
  return { agent, nats: isIdle ? nats : -nats, steps: [index], reason };
}

/** New words that make a call a piece of writing. */
const MIN_WRITTEN_WORDS = 10;

/**
 * Whether a call is work whatever it returns: the first of its tool for a job, one that names or writes something new, a check
 * after that, a look after a wait, or one that shows a change.
 */
function isWork({ step, twin, hasEqualInput, hasWaited, newsSince, similarity }: StepReading): boolean {
  if (twin === undefined || step.hasNewTarget || hasWaited) return true;
  if (newsSince > 0 || step.inputNovelty * step.input.wordCount * (1 - similarity) >= MIN_WRITTEN_WORDS) return true;
  return hasEqualInput && step.result?.hash !== twin.result?.hash;
}

/** Shorter messages ("ok", "next") say nothing about a stall. */
const MIN_WORDS = 5;
/** Nats for a message that says only what was said before, against one that says only what is new. */
const NATS_PER_SHARE = 5;
/** A message needs this much more that is new than that is repeated to count as progress. */
const TOLERANCE = 0.2;
/** Half an alarm: one message is never enough. */
const MAX_NATS = 2.3;

/** What is said beside acts is not judged, nor an agent that has set a task for others: it stands for a person ("Please go on."). */
function judgeTalk(state: StallMemory, reading: StepReading): SignalFinding | undefined {
  const { agent, name, input } = reading.step;
  const isActing = state.acting.includes(agent);
  state.acting = state.acting.filter((name) => name !== agent);
  const isGiver = state.givers.includes(agent);
  state.hasTakers ||= state.givers.length > 0 && !isGiver;
  if (isActing || (isGiver && state.hasTakers)) return undefined;
  if (name !== 'message' || input.wordCount < MIN_WORDS) return undefined;
  if (state.team !== undefined && hearTeam(state.team, reading)) return judgeTeam(state.team, reading);
  return judgeMessage(reading, state.spokenTo);
}

function judgeMessage({ step, twin, similarity }: StepReading, spokenTo: number): SignalFinding | undefined {
  const { agent, index, inputNovelty } = step;
  if (twin === undefined || twin.index < spokenTo) return undefined;
  const nats = NATS_PER_SHARE * (similarity - inputNovelty + TOLERANCE);
  return {
    agent,
    nats: Math.max(-MAX_NATS, Math.min(MAX_NATS, nats)),
    steps: [twin.index, index],
    reason: `${agent} repeats ${percent(similarity)} of an earlier message, and only ${percent(inputNovelty)} of this one is new.`,
  };
}

/** Cycles in a row without a call that may leave a state as it was there before; more of them are evidence. */
const MAX_IDLE_CYCLES = 4;
/** An equal state is a fact, so it counts for more than a step of which little is new. */
const IDLE_CYCLE_NATS = 1.2;
/** States that are remembered: an agent may go round through as many. */
const MAX_STATES = 16;
const EXTRA_CYCLE_NATS = 0.25;

/** An agent that makes calls is judged by them, and one that is spoken to may listen. */
function restart({ idle }: StallMemory, { index }: ReadEvent): void {
  Object.assign(idle, { states: [], count: 0, since: index });
}

/** Cycles that lead nowhere new, or of which there are more than the task was expected to take. */
function judgeCycle({ idle }: StallMemory, event: ReadEvent, options: SignalOptions): SignalFinding | undefined {
  const { agent, index, stateDigest } = event;
  const { expectedCycles = Infinity } = options;
  idle.cycles++;
  const isKnown = stateDigest !== undefined && idle.states.includes(stateDigest);
  if (isKnown) idle.count++;
  else if (stateDigest !== undefined)
    Object.assign(idle, { states: [...idle.states, stateDigest].slice(-MAX_STATES), count: 0, since: index });
  const steps = [idle.since, index];
  if (isKnown && idle.count > MAX_IDLE_CYCLES) {
    const reason = `The last ${idle.count} cycles of ${agent} changed nothing: the state is one of those up to event ${idle.since}.`;
    return { agent, nats: IDLE_CYCLE_NATS, steps, reason };
  }
  if (idle.cycles <= expectedCycles) return undefined;
  const reason = `Cycle ${idle.cycles} of a task that was expected to take ${expectedCycles}.`;
  return { agent, nats: EXTRA_CYCLE_NATS, steps: [index], reason };
}
