import { ReplayMismatchError } from '../../core/errors.ts';
import type { RecordedEffect } from './effect-record.ts';
import { type InputDigest, withoutMarks } from './input-digest.ts';

/** Says why a step cannot be replayed. */
export function describeMismatch(
  name: string,
  recorded: RecordedEffect | undefined,
  inputDigest: InputDigest | undefined,
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
    `Step "${name}" (effect ${recorded.ordinal}) got another ${compare(inputDigest, recorded.inputDigest)}.`,
    { details },
  );
}

function compare(given: InputDigest | undefined, recorded: InputDigest | undefined): string {
  return given !== undefined && recorded !== undefined && withoutMarks(given) === withoutMarks(recorded)
    ? 'secret in its input than the recording'
    : `input than the recording: ${short(given)} instead of ${short(recorded)}`;
}

function short(digest: InputDigest | undefined): string {
  return digest === undefined ? 'none' : digest.slice(0, 12);
}
