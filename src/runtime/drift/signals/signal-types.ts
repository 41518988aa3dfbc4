import { z } from 'zod';
import type { Signal, SignalOptions, SignalType } from '../step/signal.ts';
import { chant } from './chant.ts';
import { goalAdherence, unfoundedAnswer } from './goal.ts';
import { contextGrowth, errorRate } from './pace.ts';
import { repetition, stateRecurrence } from './repetition.ts';
import { stall } from './stall.ts';

const SIGNAL_TYPES = {
  repetition,
  'state-recurrence': stateRecurrence,
  chant,
  stall,
  'error-rate': errorRate,
  'context-growth': contextGrowth,
  'unfounded-answer': unfoundedAnswer,
  'goal-adherence': goalAdherence,
} satisfies Readonly<Record<string, SignalType>>;

/** One of the built-in signals, as evidence names it. */
export type SignalName = keyof typeof SIGNAL_TYPES;
export const SIGNAL_NAMES = Object.keys(SIGNAL_TYPES) as SignalName[];

/** What the signals remember, by name. One that was left out when that was saved begins anew. */
export const signalStates = z
  .object(Object.fromEntries(Object.entries(SIGNAL_TYPES).map(([name, { form }]) => [name, form])))
  .partial();

/** Makes the signals that the options leave in, each anew or from what it remembered. */
export function createSignals(options: SignalOptions, states: Readonly<Record<string, unknown>> = {}): Signal[] {
  const left = new Set<string>(options.without);
  const types = Object.entries(SIGNAL_TYPES).filter(([name]) => !left.has(name));
  return types.map(([name, type]) => type.create(name, options, states[name]));
}
