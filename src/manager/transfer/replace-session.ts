import { ConflictError } from '../../core/errors.ts';
import { type CheckpointHeader, digestCheckpoint } from '../../core/record/checkpoint-header.ts';
import type { SessionId } from '../../core/record/id.ts';
import type { Ref } from '../../storage/contract.ts';
import type { Engine } from '../engine/engine.ts';
import { claimSession, draftOf, hasReplacement, type ImportClaim, isClaim, WHOLE } from '../engine/import-claim.ts';
import { DEFAULT_BRANCH, readPages } from '../engine/records.ts';
import { importSession } from './import.ts';

/** Lines of a draft that are one checkpoint: few checkpoints, each of a size that any storage takes. */
const BATCH_CHARS = 1024 * 1024;

type Replacement = { readonly sessionId: SessionId; readonly lines: AsyncIterable<string> };

/**
 * Puts an exported session in the place of the one that is there, with the same ids, unless that is not as its refs say any more. First
 * the lines are stored beside it, in the same storage: a process that is killed leaves the old session, or what `finishReplacement` needs.
 */
export async function replaceSession(engine: Engine, given: Replacement & { refs: readonly Ref[] }): Promise<void> {
  const { storage } = engine;
  const { sessionId, refs } = given;
  const draft = draftOf(sessionId);
  await storage.deleteSession(draft); // one that was killed may have left it
  await writeDraft(engine, draft, given);
  if (!(await storage.deleteSession(sessionId, { ifRefs: refs }))) {
    await storage.deleteSession(draft);
    throw new ConflictError(
      `Session "${sessionId}" was changed meanwhile. Stop the programs that write to it, and run this again.`,
      { details: { sessionId } },
    );
  }
  for (const keeper of engine.keepers) keeper.forget(sessionId);
  await finishReplacement(engine, sessionId);
}

/** Brings a session in whose place was empty when its replacement was killed. Returns whether it did, or somebody else. */
export async function finishReplacement(engine: Engine, sessionId: SessionId): Promise<boolean> {
  const { storage } = engine;
  const draft = draftOf(sessionId);
  if (!(await hasReplacement(storage, sessionId))) return false;
  try {
    await importSession(engine, readDraft(engine, draft), { isOwn: true, keyOf: draft });
  } catch (error) {
    if ((await storage.readRefs({ sessionId })).every(isClaim)) throw error;
    return true; // another process was faster
  }
  await storage.deleteSession(draft);
  return true;
}

async function writeDraft(engine: Engine, draft: SessionId, { sessionId, lines }: Replacement): Promise<void> {
  const claim = await claimSession(engine, draft);
  try {
    for await (const batch of inBatches(lines)) await storeBatch(engine, batch, { draft, claim, keyOf: sessionId });
    const refs = [...claim.check(), { ...WHOLE, expect: null, target: sessionId }];
    await engine.storage.commit({ sessionId: draft, refs });
  } catch (error) {
    await claim.giveUp([]);
    throw error;
  }
}

async function* inBatches(lines: AsyncIterable<string>): AsyncGenerator<readonly string[]> {
  let batch: string[] = [];
  let chars = 0;
  for await (const line of lines) {
    batch.push(line);
    chars += line.length;
    if (chars <= BATCH_CHARS) continue;
    yield batch;
    [batch, chars] = [[], 0];
  }
  yield batch;
}

type DraftPlace = { readonly draft: SessionId; readonly claim: ImportClaim; readonly keyOf: SessionId };

/** Stores lines as the state of a checkpoint without a name: encrypted as the session's states are, and in no list, as of an import under way. */
async function storeBatch(
  { storage, plainCodec, ports }: Engine,
  lines: readonly string[],
  { draft: sessionId, claim, keyOf }: DraftPlace,
): Promise<void> {
  const { root, chunks, sizeBytes } = plainCodec.encode(lines);
  const header: CheckpointHeader = {
    id: ports.nextId(),
    sessionId,
    branch: DEFAULT_BRANCH,
    sequence: 1,
    type: 'draft',
    timestampMs: ports.now(),
    stateDigest: root.digest,
    stateBytes: sizeBytes,
  };
  const body = JSON.stringify(header);
  const checkpoint = { header, body, digest: digestCheckpoint(body), root };
  await storage.commit({ sessionId, checkpoint, chunks, refs: claim.check(), keyOf });
}

async function* readDraft({ storage, repository, plainCodec }: Engine, sessionId: SessionId): AsyncGenerator<string> {
  for await (const rows of readPages(storage, { sessionId, order: 'oldest' }))
    for (const { id } of rows) {
      const { root } = await repository.open(id);
      yield* plainCodec.decode(root, await repository.loadChunks(root)) as string[];
    }
}
