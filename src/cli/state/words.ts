import { hasErrorCode } from '../../core/errors.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import { findBrought, formatFields } from '../../view/label.ts';
import { readMessage } from '../../view/messages.ts';
import type { Context, OpenStorage } from '../base/command.ts';
import { formatStep, readThreadStep } from '../thread/thread-step.ts';
import { formatHealth } from './checkpoint-text.ts';

/** What a checkpoint brought, on one line. */
export type Words = {
  readonly text: string;
  /** Somebody said it; else it is what changed. */
  readonly isSaid: boolean;
  /** When it was made, if that is not when it was saved. */
  readonly madeAt?: Date;
};

/**
 * What was said or changed with each checkpoint, by their ids. What cannot be read says so, and the list goes on. With `isEach` several are
 * listed for one message, and what each was saved for tells them apart.
 */
export async function readWords(
  context: Context,
  checkpoints: readonly Checkpoint[],
  { isEach = false } = {},
): Promise<ReadonlyMap<string, Words>> {
  const words = new Map<string, Words>();
  const opened = await context.open();
  for await (const checkpoint of context.watch(checkpoints, { noun: 'checkpoints', total: checkpoints.length })) {
    const found = await wordsOf(opened, checkpoint).catch((error: unknown) => {
      if (!hasErrorCode(error, 'CORRUPT')) throw error;
      return { text: 'damaged: see verify --read-data', isSaid: false };
    });
    if (found !== undefined) words.set(checkpoint.id, isEach ? { ...found, isSaid: false } : found);
  }
  return words;
}

async function wordsOf(opened: OpenStorage, checkpoint: Checkpoint): Promise<Words | undefined> {
  const step = await readThreadStep(opened, checkpoint);
  if (step !== undefined) return { text: formatStep(step), isSaid: true, madeAt: step.madeAt };
  const { contextSummary, metadata } = checkpoint;
  if (contextSummary !== undefined) return { text: contextSummary, isSaid: true };
  if (formatHealth(metadata) !== undefined) return undefined; // a loop notes what matters
  const { message, run, changedFields } = await findBrought(opened.manager, checkpoint);
  if (run !== undefined) return { text: run, isSaid: true };
  const said = readMessage(message);
  return said === undefined
    ? { text: formatFields(changedFields), isSaid: false }
    : { text: `${said.speaker}: ${said.text}`, isSaid: true };
}
