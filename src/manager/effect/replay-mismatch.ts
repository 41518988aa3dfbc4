import { ReplayMismatchError } from '../../core/errors.ts';
import type { Digest } from '../../core/tree/chunk.ts';
import type { RecordedEffect } from './effect-record.ts';

/** Says why a step cannot be replayed. */
export function describeMismatch(
  name: string,
  recorded: RecordedEffect | undefined,
  inputDigest: Digest | undefined,
): ReplayMismatchError {
  const details = { name, recordedInput: recorded?.inputDigest ?? null, input: inputDigest ?? null };
  if (recorded === undefined)
    return new ReplayMismatchError(`Step "${name}" has no recording left to replay.`, { details });
  if (recorded.status === 'dropped')
    return new ReplayMismatchError(
      `The result of step "${name}" (effect ${recorded.ordinal}) was dropped. Go on from a checkpoint that is kept, not from the start.`,
      { details },
    );
  if (recorded.status === 'started')
    return new ReplayMismatchError(`Step "${name}" was still running when the recording ends.`, { details });
  return new ReplayMismatchError(
    `Step "${name}" (effect ${recorded.ordinal}) got another input than the recording: ${short(inputDigest)} instead of ${short(recorded.inputDigest)}.`,
    { details },
  );
}

function short(digest: Digest | undefined): string {
  return digest === undefined ? 'none' : digest.slice(0, 12);
}
