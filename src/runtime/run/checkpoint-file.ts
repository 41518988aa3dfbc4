import { readFile } from 'node:fs/promises';
import { StateCodec } from '../../core/codec/state-codec.ts';
import { CorruptError, hasErrorCode, InvalidInputError, messageOf, NotFoundError } from '../../core/errors.ts';
import { Checkpoint } from '../../core/record/checkpoint.ts';
import type { ClassCodec } from '../../core/value/class-codec.ts';

/** A checkpoint read from a file, with its state decoded. */
export type CheckpointFile = { readonly checkpoint: Checkpoint; readonly state: unknown };

/** Reads a file that holds one checkpoint as JSON. A file that was cut off or edited is refused: its digests do not fit any more. */
export async function readCheckpointFile(path: string, classes?: readonly ClassCodec[]): Promise<CheckpointFile> {
  const checkpoint = readCheckpoint(parseJson(await readText(path), path), path);
  if (checkpoint.encodedState === undefined)
    throw new InvalidInputError(`${path} holds a checkpoint without its state.`, { details: { path } });
  return { checkpoint, state: new StateCodec({ classes }).decodeJson(checkpoint.encodedState) };
}

function readCheckpoint(json: unknown, path: string): Checkpoint {
  try {
    return Checkpoint.fromJSON(json);
  } catch (cause) {
    const problem = messageOf(cause);
    if (!hasErrorCode(cause, 'CORRUPT'))
      throw new InvalidInputError(`${path} is no checkpoint file: ${problem}`, { cause, details: { path } });
    const advice = problem.includes('fork')
      ? ''
      : ' To continue from something changed, fork the stored checkpoint with an edit.';
    throw new CorruptError(`${path} was changed after it was written: ${problem}${advice}`, {
      cause,
      details: { path },
    });
  }
}

async function readText(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (cause) {
    throw new NotFoundError(`The checkpoint file ${path} cannot be read.`, { cause, details: { path } });
  }
}

function parseJson(text: string, path: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new InvalidInputError(`${path} is no checkpoint file: it is not JSON. It may have been cut off.`, {
      cause,
      details: { path },
    });
  }
}
