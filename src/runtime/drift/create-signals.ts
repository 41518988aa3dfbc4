import { createAlternation } from './signals/alternation.ts';
import { createChant } from './signals/chant.ts';
import { createContextGrowth } from './signals/context-growth.ts';
import { createCycleCount } from './signals/cycle-count.ts';
import { createCycleTime } from './signals/cycle-time.ts';
import { createErrorRate } from './signals/error-rate.ts';
import { createGoalAdherence } from './signals/goal-adherence.ts';
import { createIdleSteps } from './signals/idle-steps.ts';
import { createMonologue } from './signals/monologue.ts';
import { createProgress } from './signals/progress.ts';
import { createReAsking } from './signals/re-asking.ts';
import { createNearDuplicate, createRepetition } from './signals/repetition.ts';
import type { SignalStates } from './signals/signal-states.ts';
import { createStall } from './signals/stall.ts';
import { createStateRecurrence } from './signals/state-recurrence.ts';
import { createUnfoundedAnswer } from './signals/unfounded-answer.ts';
import type { ReadDriftOptions, SignalName } from './step/drift-options.ts';
import type { Signal } from './step/signal.ts';

/** Makes the signals that the options leave in, each anew or from what it remembered. */
export function createSignals(options: ReadDriftOptions, states: Partial<SignalStates> = {}): Signal[] {
  const { expectedCycles } = options;
  const factories: Record<SignalName, () => Signal | undefined> = {
    repetition: createRepetition,
    'near-duplicate': createNearDuplicate,
    're-asking': createReAsking,
    progress: createProgress,
    alternation: () => createAlternation(states.alternation),
    'state-recurrence': () => createStateRecurrence(states['state-recurrence']),
    monologue: () => createMonologue(states.monologue),
    chant: createChant,
    stall: () => createStall(states.stall),
    'idle-steps': () => createIdleSteps(options.maxIdleSteps, states['idle-steps']),
    'cycle-count': () =>
      expectedCycles === undefined ? undefined : createCycleCount(expectedCycles, states['cycle-count']),
    'error-rate': () => createErrorRate(states['error-rate']),
    'cycle-time': () => createCycleTime(states['cycle-time']),
    'context-growth': () => createContextGrowth(options.contextLimitTokens, states['context-growth']),
    'unfounded-answer': () => createUnfoundedAnswer(states['unfounded-answer']),
    'goal-adherence': () => createGoalAdherence(options.goal, states['goal-adherence']),
  };
  const left = new Set<string>(options.without);
  return Object.entries(factories).flatMap(([name, create]) => (left.has(name) ? [] : (create() ?? [])));
}
