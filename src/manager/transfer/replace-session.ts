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

/**
 * Puts an exported session in the place of the one that is there, with the same ids, unless that is not as its refs say any more. First
 * the lines are stored beside it, in the same storage: a process that is killed leaves the old session, or what `finishReplacement` needs.
 */
export async function replaceSession(
  engine: Engine,
  { sessionId, refs, lines }: { sessionId: SessionId; refs: readonly Ref[]; lines: AsyncIterable<string> },
): Promise<void> {
  const { storage } = engine;
  const draft = draftOf(sessionId);
  await storage.deleteSession(draft); // one that was killed may have left it
  await writeDraft(engine, draft, { sessionId, lines });
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

async function writeDraft(
  engine: Engine,
  draft: SessionId,
  { sessionId, lines }: { sessionId: SessionId; lines: AsyncIterable<string> },
): Promise<void> {
  const claim = await claimSession(engine, draft);
  const writing = new DraftWriting(engine, { draft, claim, keyOf: sessionId });
  try {
    for await (const line of lines) await writing.add(line);
    await writing.store();
    const refs = [...claim.check(), { ...WHOLE, expect: null, target: sessionId }];
    await engine.storage.commit({ sessionId: draft, refs });
  } catch (error) {
    await claim.giveUp([]);
    throw error;
  }
}

/** Stores lines as the states of checkpoints without a name: encrypted as the session's states are, and in no list, as of an import under way. */
class DraftWriting {
  readonly #engine: Engine;
  readonly #draft: SessionId;
  readonly #claim: ImportClaim;
  readonly #keyOf: SessionId;
  #lines: string[] = [];
  #chars = 0;
  #last: Pick<CheckpointHeader, 'parentId' | 'parentDigest' | 'sequence'> = { sequence: 1 };

  constructor(
    engine: Engine,
    { draft, claim, keyOf }: { readonly draft: SessionId; readonly claim: ImportClaim; readonly keyOf: SessionId },
  ) {
    this.#engine = engine;
    this.#draft = draft;
    this.#claim = claim;
    this.#keyOf = keyOf;
  }

  async add(line: string): Promise<void> {
    this.#lines.push(line);
    this.#chars += line.length;
    if (this.#chars > BATCH_CHARS) await this.store();
  }

  async store(): Promise<void> {
    const { storage, plainCodec, ports } = this.#engine;
    const { root, chunks, sizeBytes } = plainCodec.encode(this.#lines);
    const header: CheckpointHeader = {
      ...this.#last,
      id: ports.nextId(),
      sessionId: this.#draft,
      branch: DEFAULT_BRANCH,
      type: 'draft',
      timestampMs: ports.now(),
      stateDigest: root.digest,
      stateBytes: sizeBytes,
    };
    const body = JSON.stringify(header);
    const digest = digestCheckpoint(body);
    const checkpoint = { header, body, digest, root };
    const [sessionId, keyOf] = [this.#draft, this.#keyOf];
    await storage.commit({ sessionId, checkpoint, chunks, refs: this.#claim.check(), keyOf });
    this.#last = { parentId: header.id, parentDigest: digest, sequence: header.sequence + 1 };
    this.#lines = [];
    this.#chars = 0;
  }
}

async function* readDraft({ storage, repository, plainCodec }: Engine, sessionId: SessionId): AsyncGenerator<string> {
  for await (const rows of readPages(storage, { sessionId, order: 'oldest' }))
    for (const { id } of rows) {
      const { root } = await repository.open(id);
      yield* plainCodec.decode(root, await repository.loadChunks(root)) as string[];
    }
}
