import { readFile } from 'node:fs/promises';
import { StateCodec } from '../../core/codec/state-codec.ts';
import { CorruptError, hasErrorCode, InvalidInputError, messageOf, NotFoundError } from '../../core/errors.ts';
import { Checkpoint } from '../../core/record/checkpoint.ts';
import type { ClassCodec } from '../../core/value/class-codec.ts';

/** Reads a file that holds one checkpoint as JSON, with its state. A file that was cut off or edited is refused: its digests do not fit any more. */
export async function readCheckpointFile(path: string, classes?: readonly ClassCodec[]) {
  const text = await readFile(path, 'utf8').catch((cause: unknown) => {
    throw new NotFoundError(`The checkpoint file ${path} cannot be read.`, { cause, details: { path } });
  });
  const checkpoint = readCheckpoint(text, path);
  if (checkpoint.encodedState === undefined)
    throw new InvalidInputError(`${path} holds a checkpoint without its state.`, { details: { path } });
  return { checkpoint, state: new StateCodec({ classes }).decodeJson(checkpoint.encodedState) };
}

function readCheckpoint(text: string, path: string): Checkpoint {
  try {
    return Checkpoint.fromJSON(JSON.parse(text));
  } catch (cause) {
    const details = { path };
    const isCutOff = cause instanceof SyntaxError;
    const problem = isCutOff ? 'it is not JSON. It may have been cut off.' : messageOf(cause);
    if (!hasErrorCode(cause, 'CORRUPT'))
      throw new InvalidInputError(`${path} is no checkpoint file: ${problem}`, { cause, details });
    const advice = ' To continue from something changed, fork the stored checkpoint with an edit.';
    throw new CorruptError(
      `${path} was changed after it was written: ${problem}${problem.includes('fork') ? '' : advice}`,
      { cause, details },
    );
  }
}
