import { z } from 'zod';

const count = z.int().nonnegative();
const text = z.string();

/** What the signals that remember something remember, as plain data. Counts of events and their numbers are whole. */
export const SIGNAL_STATES = {
  alternation: z.object({ calls: z.array(z.object({ index: count, agent: text, mark: text })) }),
  'state-recurrence': z.object({ visits: z.array(z.tuple([text, count])) }),
  monologue: z.object({ speaker: text.optional() }),
  stall: z.object({ givers: z.array(text), hasTakers: z.boolean() }),
  'idle-steps': z.object({
    /** Agent, number of idle steps, and the first of them. */
    idle: z.array(z.tuple([text, count, count])),
    cycles: z.object({ states: z.array(text).optional(), count, since: count }).optional(),
  }),
  'cycle-count': z.object({ count }),
  'error-rate': z.object({
    lastErrors: z.array(z.tuple([text, z.object({ index: count, kind: z.enum(['call', 'message']) })])),
  }),
  'cycle-time': z.object({
    lastAt: z.number().optional(),
    lastIndex: count,
    count,
    mean: z.number(),
    variance: z.number().nonnegative(),
    hasCycles: z.boolean(),
  }),
  'context-growth': z.object({ tokens: z.number(), sizesSinceCut: count, cutIndex: count.optional() }),
  'unfounded-answer': z.object({ foundWords: z.number().nonnegative(), hasPlan: z.boolean(), hasActed: z.boolean() }),
  'goal-adherence': z.object({
    terms: z.array(text),
    share: z.number(),
    /** Steps that were looked at. */
    messages: count,
    /** Whether the goal was given as such, in whatever words, and not stated in a system prompt. */
    isTold: z.boolean().optional(),
    /** Words of what a person said last: whoever answers that does what it is there for. */
    asked: z.array(text).optional(),
  }),
};

/** What each signal remembers, by its name. */
export type SignalStates = { [Name in keyof typeof SIGNAL_STATES]: z.infer<(typeof SIGNAL_STATES)[Name]> };
