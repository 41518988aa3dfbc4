import { createAlternation } from './signals/alternation.ts';
import { createChant } from './signals/chant.ts';
import { createContextGrowth } from './signals/context-growth.ts';
import { createCycleCount } from './signals/cycle-count.ts';
import { createCycleTime } from './signals/cycle-time.ts';
import { createErrorRate } from './signals/error-rate.ts';
import { createGoalAdherence } from './signals/goal-adherence.ts';
import { createIdleSteps } from './signals/idle-steps.ts';
import { createMonologue } from './signals/monologue.ts';
import { createNearDuplicate } from './signals/near-duplicate.ts';
import { createProgress } from './signals/progress.ts';
import { createReAsking } from './signals/re-asking.ts';
import { createRepetition } from './signals/repetition.ts';
import { createStall } from './signals/stall.ts';
import { createStateRecurrence } from './signals/state-recurrence.ts';
import { createUnfoundedAnswer } from './signals/unfounded-answer.ts';
import type { ReadDriftOptions, SignalName } from './step/drift-options.ts';
import type { Signal, SignalFactory } from './step/signal.ts';

/** Makes the signals that the options leave in, each anew or from what it remembered. */
export function createSignals(options: ReadDriftOptions, states: Readonly<Record<string, unknown>> = {}): Signal[] {
  const factories: Record<SignalName, SignalFactory | undefined> = {
    repetition: createRepetition,
    'near-duplicate': createNearDuplicate,
    're-asking': createReAsking,
    progress: createProgress,
    alternation: createAlternation,
    'state-recurrence': createStateRecurrence,
    monologue: createMonologue,
    chant: createChant,
    stall: createStall,
    'idle-steps': (state) => createIdleSteps(options.maxIdleSteps, state),
    'cycle-count': cycleCountFactory(options.expectedCycles),
    'error-rate': createErrorRate,
    'cycle-time': createCycleTime,
    'context-growth': (state) => createContextGrowth(options.contextLimitTokens, state),
    'unfounded-answer': (state) => createUnfoundedAnswer(state),
    'goal-adherence': (state) => createGoalAdherence(options.goal, state),
  };
  const left = new Set<string>(options.without);
  return Object.entries(factories).flatMap(([name, factory]) =>
    factory === undefined || left.has(name) ? [] : [factory(states[name])],
  );
}

function cycleCountFactory(expectedCycles: number | undefined): SignalFactory | undefined {
  return expectedCycles === undefined ? undefined : (state) => createCycleCount(expectedCycles, state);
}
