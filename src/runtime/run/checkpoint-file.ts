import { readFile } from 'node:fs/promises';
import { Checkpoint } from '../../core/checkpoint.ts';
import type { JsonValue } from '../../core/checkpoint-header.ts';
import type { ClassCodec } from '../../core/class-codec.ts';
import { CorruptError, InvalidInputError, NotFoundError } from '../../core/errors.ts';
import { StateCodec } from '../../core/state-codec.ts';

/** A checkpoint read from a file, with its state decoded. */
export type CheckpointFile = { readonly checkpoint: Checkpoint; readonly state: unknown };

/** Reads a file that holds one checkpoint as JSON. A file that was cut off or edited is refused: its digests do not fit any more. */
export async function readCheckpointFile(path: string, classes?: readonly ClassCodec[]): Promise<CheckpointFile> {
  const checkpoint = Checkpoint.fromJSON(parseJson(await readText(path), path));
  const codec = new StateCodec({ classes });
  const state = codec.decodeJson(checkpoint.encodedState as JsonValue);
  const { digest } = codec.encode(state).root;
  if (digest === checkpoint.header.stateDigest) return { checkpoint, state };
  throw new CorruptError(
    `The state in ${path} was changed after it was written: its digest is ${digest}, and the checkpoint says ${checkpoint.header.stateDigest}. To continue from a changed state, fork the stored checkpoint with an edit.`,
    { details: { path, id: checkpoint.id } },
  );
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
