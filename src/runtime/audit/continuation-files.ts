import { join } from 'node:path';
import type { Checkpoint } from '../../core/checkpoint.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { SessionFiles } from './session-files.ts';
import { createUniqueFolder, findSessionFolder, folderOfCheckpointFile, formatStamp } from './session-folder.ts';
import { writeJsonFile } from './write-file-whole.ts';

/** What the files of a continuation are about. */
export type ContinuationFilesOptions = {
  readonly checkpoints: CheckpointManager;
  readonly origin: Checkpoint;
  /** The file the checkpoint was read from. */
  readonly file?: string | undefined;
  /** The session that is written to. */
  readonly sessionId: string;
  readonly rounds: number;
  /** The folder above the sessions' folders. */
  readonly root: string;
  /** Where continuations go instead of the folder of their session. */
  readonly outputRoot?: string | undefined;
  readonly now?: () => number;
};

/** Makes a folder for a continuation, which names its origin. */
export async function openContinuationFiles(options: ContinuationFilesOptions): Promise<SessionFiles> {
  const { checkpoints, origin, file, sessionId, rounds, now = Date.now } = options;
  const parent = await findParent(options);
  const folder = await createUniqueFolder(parent, `continuation_${formatStamp(now())}`);
  await writeJsonFile(join(folder, 'continuation_metadata.json'), {
    continuation_started_at: new Date(now()).toISOString(),
    original_session_id: origin.sessionId,
    original_session_dir: file === undefined ? parent : folderOfCheckpointFile(file),
    original_checkpoint_file: file ?? null,
    original_checkpoint_id: origin.id,
    original_round: (origin.metadata as { round?: unknown } | undefined)?.round ?? null,
    max_additional_rounds: rounds,
    session_id: sessionId,
  });
  return SessionFiles.open({ checkpoints, sessionId, folder, now });
}

async function findParent({
  outputRoot,
  file,
  root,
  origin,
  now = Date.now,
}: ContinuationFilesOptions): Promise<string> {
  if (outputRoot !== undefined) return outputRoot;
  if (file !== undefined) return folderOfCheckpointFile(file);
  const known = await findSessionFolder(root, origin.sessionId);
  return known ?? createUniqueFolder(root, `session_${formatStamp(now())}`);
}
