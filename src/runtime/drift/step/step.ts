import { z } from 'zod';
import { resemblance, textMark, textSketch } from './text-sketch.ts';

const count = z.int().nonnegative();
const amount = z.number().nonnegative();

/** One thing an agent did: a call with its result, or a message. */
export const stepSchema = z.object({
  /** The event it began with. */
  index: count,
  /** Its number among the agent's steps. */
  ordinal: count,
  kind: z.enum(['call', 'message']),
  agent: z.string(),
  name: z.string(),
  callId: z.string().optional(),
  input: textSketch,
  /** What fraction of the input had never been seen in this run. */
  inputNovelty: amount,
  /** Whether the call names something (a file, a line, a key) that no call of this tool named before. */
  hasNewTarget: z.boolean(),
  /** Whether the input is one question or request in plain words, hardly any of which is new to the run. */
  isPlainQuestion: z.boolean(),
  result: textMark.optional(),
  /** What fraction of the result had never been seen in this run, the agent's own words included. */
  resultNovelty: amount.optional(),
  isError: z.boolean(),
  /** The event that answered it. */
  answeredAt: count.optional(),
  /** How much the agent had learnt when it was made: the sum of what each result brought that was new. */
  learntBefore: amount,
  /** How much had been written by then. */
  writtenBefore: amount,
  /** How much it wrote itself, 0 to 1: a call that says something new at length (an edit, a program), unlike earlier ones. */
  written: amount,
});
export type Step = Readonly<z.infer<typeof stepSchema>>;

/** A step that has just been made or answered, beside the earlier step it resembles most. */
export type StepReading = {
  readonly step: Step;
  /** Whether this is its last reading: its result is known, or none is to be expected. */
  readonly isComplete: boolean;
  readonly twin: Step | undefined;
  /** Whether the twin's result was known when this step was made; calls made at once do not repeat each other. */
  readonly isTwinAnswered: boolean;
  /** How alike the two inputs are, 0 to 1; 0 without a twin. */
  readonly similarity: number;
  readonly hasEqualInput: boolean;
  /** What fraction of the input's words the twin did not have. */
  readonly addedWords: number;
  /** Steps since the twin, 1 for the one before. */
  readonly distance: number;
  /** How many results' worth of new things were learnt between the twin's answer and this step. */
  readonly learntSince: number;
  /** How many calls' worth of new things were written between the twin and this step. */
  readonly writtenSince: number;
  /** Words that nobody in this run had used before the result did. */
  readonly foundWords: number;
};

/** New words that make a call a piece of work. */
const WRITTEN_WORDS = 20;

/** Whether two steps can repeat each other: only what was done in one way is a repetition. */
export function isComparable(earlier: Step, step: Step): boolean {
  return earlier.index < step.index && earlier.kind === step.kind && earlier.name === step.name;
}

/** How alike two inputs are. Below 1 unless their words are equal in their order: a sketch cannot say more than "very alike". */
export function compareInputs(earlier: Step, step: Step): number {
  return earlier.input.hash === step.input.hash
    ? 1
    : Math.min(0.99, resemblance(earlier.input.words, step.input.words));
}

/** How much had been learnt when a step was answered, its own result included. */
export function learntAfter({ learntBefore, resultNovelty, isError }: Step): number {
  return learntBefore + (isError ? 0 : (resultNovelty ?? 0));
}

/** How much a call writes that is new and unlike what was written before. */
export function writtenIn({ step, similarity }: Pick<StepReading, 'step' | 'similarity'>): number {
  return Math.min(1, (step.inputNovelty * step.input.wordCount) / WRITTEN_WORDS) * (1 - similarity);
}
