import type { Signal } from '../signal.ts';
import type { StepReading } from '../step.ts';

/** A step of which less is new than this has brought nothing. */
const MIN_NOVELTY = 0.3;
const IDLE_NATS = 0.4;
const MAX_AGENTS = 64;

type IdleStepsState = { readonly idle: readonly (readonly [agent: string, count: number, since: number])[] };

/** Speaks when an agent has made more than `maxIdleSteps` steps in a row that brought nothing new: the cycle count that matters. */
export function createIdleSteps(maxIdleSteps: number, state?: unknown): Signal {
  const idle = new Map<string, { count: number; since: number }>(
    (state as IdleStepsState | undefined)?.idle.map(([agent, count, since]) => [agent, { count, since }]),
  );
  return {
    name: 'idle-steps',
    kind: 'stall',
    observe({ reading }) {
      if (reading === undefined || !reading.isComplete || reading.step.kind !== 'call') return undefined;
      const { step } = reading;
      if (isFruitful(reading)) {
        idle.delete(step.agent);
        return { agent: step.agent, nats: -IDLE_NATS, steps: [step.index], reason: 'The step brought something new.' };
      }
      const run = idle.get(step.agent) ?? { count: 0, since: step.index };
      idle.delete(step.agent);
      idle.set(step.agent, { count: run.count + 1, since: run.since });
      if (idle.size > MAX_AGENTS) idle.delete(idle.keys().next().value ?? '');
      if (run.count + 1 <= maxIdleSteps) return undefined;
      const reason = `${step.agent} has made ${run.count + 1} calls since event ${run.since} that brought nothing new.`;
      return { agent: step.agent, nats: IDLE_NATS, steps: [run.since, step.index], reason };
    },
    snapshot: (): IdleStepsState => ({
      idle: [...idle].map(([agent, { count, since }]) => [agent, count, since] as const),
    }),
  };
}

function isFruitful({ step }: StepReading): boolean {
  return (step.resultNovelty ?? step.inputNovelty) >= MIN_NOVELTY;
}
