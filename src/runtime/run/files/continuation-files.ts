import { basename, dirname, join } from 'node:path';
import type { Checkpoint } from '../../../core/record/checkpoint.ts';
import { SessionFiles, type SessionFilesOptions } from './session-files.ts';
import { createUniqueFolder, findSessionFolder, formatStamp, readSessionId } from './session-folder.ts';
import { writeJsonFile } from './write-file-whole.ts';

/** What the files of a continuation are about. */
export type ContinuationFilesOptions = SessionFilesOptions & {
  readonly origin: Checkpoint;
  /** The file the checkpoint was read from. */
  readonly file?: string | undefined;
  readonly rounds: number;
  readonly root: string;
  /** Where continuations go instead of the folder of their session. */
  readonly outputRoot?: string | undefined;
};

/** Makes a folder for a continuation, which names its origin. If that fails, nothing is written, and `problems` says why. */
export async function openContinuationFiles(options: ContinuationFilesOptions): Promise<SessionFiles> {
  try {
    return await openFolder(options);
  } catch (error) {
    return SessionFiles.unusable(options.outputRoot ?? options.root, options, error);
  }
}

async function openFolder(options: ContinuationFilesOptions): Promise<SessionFiles> {
  const { origin, file, sessionId, rounds, root, outputRoot, now = Date.now } = options;
  const known = (await folderOfFile(file)) ?? (await findSessionFolder(root, origin.sessionId));
  const parent = outputRoot ?? known ?? (await createUniqueFolder(root, `session_${formatStamp(now())}`));
  const folder = await createUniqueFolder(parent, `continuation_${formatStamp(now())}`);
  await writeJsonFile(join(folder, 'continuation_metadata.json'), {
    continuation_started_at: new Date(now()).toISOString(),
    original_session_id: origin.sessionId,
    original_session_dir: known ?? null,
    original_checkpoint_file: file ?? null,
    original_checkpoint_id: origin.id,
    original_round: (origin.metadata as { round?: unknown } | undefined)?.round ?? null,
    max_additional_rounds: rounds,
    session_id: sessionId,
  });
  return SessionFiles.open({ ...options, folder });
}

/** The session's folder that a checkpoint file lies in, `<session>/checkpoints/<file>`; undefined if it lies elsewhere. */
async function folderOfFile(file: string | undefined): Promise<string | undefined> {
  if (file === undefined || basename(dirname(file)) !== 'checkpoints') return undefined;
  const folder = dirname(dirname(file));
  return (await readSessionId(folder)) === undefined ? undefined : folder;
}
