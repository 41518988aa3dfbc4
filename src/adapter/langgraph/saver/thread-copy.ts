import { ConflictError, InvalidInputError, NotFoundError } from '../../../core/errors.ts';
import { Checkpoint } from '../../../core/record/checkpoint.ts';
import { type CheckpointHeader, digestCheckpoint } from '../../../core/record/checkpoint-header.ts';
import { type CheckpointId, formatCheckpointId, idAfter, type SessionId } from '../../../core/record/id.ts';
import { type Chunk, digestText } from '../../../core/tree/chunk.ts';
import type { Engine } from '../../../manager/engine/engine.ts';
import { claimSession, type ImportClaim, settleImport } from '../../../manager/engine/import-claim.ts';
import { readSession } from '../../../manager/engine/records.ts';
import { deleteSession } from '../../../manager/retention/forgetting.ts';
import type { EffectRow, RefChange } from '../../../storage/contract.ts';
import { checkRef } from '../../../storage/ref.ts';
import { deriveCheckpointId } from '../record/checkpoint-id.ts';
import { findGraphHeader, type GraphHeader, metadataOf, withGraphHeader } from '../record/graph-header.ts';
import { aliasOf, type GraphCheckpoint } from '../record/graph-rows.ts';
import { placeOf, sessionOf, sessionsOfThread, type ThreadPlace } from '../record/thread-session.ts';
import { bucketOf, moveWrites } from '../record/write-record.ts';
import { toGraph } from './delta-history.ts';
import type { SessionLanes } from './session-lanes.ts';

/** 60 bits. */
const TAIL_HEX_CHARS = 15;

/** The refs a copy has too; the others are about the session it was copied from. */
const COPIED_KINDS: ReadonlySet<string> = new Set(['branch', 'tag', 'pin', 'current']);

/** Deletes every namespace of a thread, and gives the space back. */
export async function deleteThread(engine: Engine, lanes: SessionLanes, threadId: string): Promise<void> {
  for (const sessionId of await sessionsOfThread(engine.storage, threadId))
    await lanes.alone(sessionId, () => deleteSession(engine, sessionId));
  await engine.storage.collect();
}

/** Copies every namespace of a thread; states are shared, not copied. */
export async function copyThread(
  engine: Engine,
  lanes: SessionLanes,
  { from, to }: { readonly from: string; readonly to: string },
): Promise<void> {
  if (from === to)
    throw new InvalidInputError(`Thread "${from}" cannot be copied onto itself.`, { details: { sourceId: from } });
  let isFound = false;
  for (const session of await sessionsOfThread(engine.storage, from)) {
    const place = await findSessionPlace(engine, session);
    if (place === undefined) continue;
    isFound = true;
    const target: ThreadPlace = { threadId: to, namespace: place.namespace };
    await lanes.alone(sessionOf(target), () => copySession(engine, session, target));
  }
  if (isFound) return;
  throw new NotFoundError(`There is no thread "${from}" in this storage, so nothing was copied. Check its id.`, {
    details: { threadId: from },
  });
}

/** The place of a session; undefined if LangGraph has nothing there. */
async function findSessionPlace(
  { storage, repository }: Engine,
  sessionId: SessionId,
): Promise<ThreadPlace | undefined> {
  const [row] = await storage.listCheckpoints({ sessionId, limit: 1 });
  if (row === undefined) return undefined;
  const { checkpoint } = await repository.open(row.id);
  return findGraphHeader(checkpoint)?.place ?? placeOf(sessionId);
}

/** Copies a session, oldest checkpoint first. Chunks are shared; what is left of deleted checkpoints stays behind. */
async function copySession(engine: Engine, from: SessionId, place: ThreadPlace): Promise<void> {
  const target = sessionOf(place);
  await settleImport(engine, target);
  await checkFree(engine, target, place);
  const sources: GraphCheckpoint[] = [];
  for await (const entry of readSession(engine.storage, from)) {
    const found = toGraph(entry);
    if (found !== undefined) sources.push(found);
  }
  const claim = await claimSession(engine, target);
  const copy: Copy = { place, claim, copies: new Map(), refs: [] };
  try {
    for (const source of sources.toReversed()) await copyCheckpoint(engine, source, copy);
    await copyRefs(engine, from, copy);
  } catch (error) {
    await claim.giveUp([...copy.copies.values()].map(({ id }) => id));
    throw error;
  }
}

/** A copy on its way. Its names wait for the end: what has none but the claim is nobody else's. */
type Copy = {
  readonly place: ThreadPlace;
  readonly claim: ImportClaim;
  readonly copies: Map<CheckpointId, Checkpoint>;
  readonly refs: RefChange[];
};

async function checkFree({ storage }: Engine, target: SessionId, { threadId }: ThreadPlace): Promise<void> {
  const refs = await storage.readRefs({ sessionId: target });
  const rows = await storage.listCheckpoints({ sessionId: target, limit: 1 });
  if (refs.length + rows.length === 0) return;
  throw new ConflictError(`Thread "${threadId}" exists already. Delete it first, or copy to another name.`, {
    details: { threadId, sessionId: target },
  });
}

async function copyCheckpoint(
  engine: Engine,
  source: GraphCheckpoint,
  { place, claim, copies, refs }: Copy,
): Promise<void> {
  const { checkpoint, graph } = source;
  const sessionId = sessionOf(place);
  const { root } = await engine.repository.open(checkpoint.id);
  const parent = checkpoint.parentId && copies.get(checkpoint.parentId);
  const replaces = graph.replaces && copies.get(graph.replaces)?.id;
  const id = copiedId(source, { sessionId, after: replaces ?? parent?.id, isReplacing: replaces !== undefined });
  const header = rewriteHeader(engine, checkpoint, { id, parent, graph: { ...graph, place, replaces } });
  const body = JSON.stringify(header);
  const digest = digestCheckpoint(body);
  const writes = await copyWrites(engine, source, sessionId);
  const alias: RefChange = { kind: 'mark', name: aliasOf(graph.id), target: id };
  await engine.storage.commit({
    sessionId,
    checkpoint: { header, body, digest, root },
    chunks: writes.chunks,
    effects: writes.rows,
    requires: [checkpoint.id],
    refs: claim.check(),
  });
  refs.push(...writes.refs);
  if (id !== deriveCheckpointId(sessionId, graph.id)) refs.push(alias);
  copies.set(checkpoint.id, new Checkpoint(header, digest));
}

/** An id with the same place among the others as the original has. */
function copiedId(
  { checkpoint, graph }: GraphCheckpoint,
  { sessionId, after, isReplacing }: { sessionId: SessionId; after: CheckpointId | undefined; isReplacing: boolean },
): CheckpointId {
  if (isReplacing && after !== undefined) return idAfter(after);
  const derived = deriveCheckpointId(sessionId, graph.id);
  const tail = BigInt(`0x${digestText(JSON.stringify([sessionId, checkpoint.id])).slice(0, TAIL_HEX_CHARS)}`);
  const id = derived ?? formatCheckpointId(checkpoint.header.timestampMs, tail);
  return after === undefined || id > after ? id : idAfter(after);
}

function rewriteHeader(
  { codec }: Engine,
  checkpoint: Checkpoint,
  { id, parent, graph }: { id: CheckpointId; parent: Checkpoint | undefined; graph: GraphHeader },
): CheckpointHeader {
  const { parentId: _, parentDigest: __, idempotencyKey: ___, ...header } = checkpoint.header;
  const metadata = codec.encodeJson(withGraphHeader(metadataOf(checkpoint, codec), graph));
  return {
    ...header,
    id,
    sessionId: sessionOf(graph.place),
    sequence: (parent?.sequence ?? 0) + 1,
    ...(parent !== undefined && { parentId: parent.id, parentDigest: parent.digest }),
    metadata: metadata as NonNullable<CheckpointHeader['metadata']>,
  };
}

type CopiedWrites = { readonly rows: EffectRow[]; readonly chunks: Chunk[]; readonly refs: RefChange[] };

/** No checkpoint need reach what was written to one, so the copy brings it along. */
async function copyWrites(
  { storage, repository }: Engine,
  { checkpoint, graph }: GraphCheckpoint,
  target: SessionId,
): Promise<CopiedWrites> {
  const branch = bucketOf(checkpoint.sessionId, graph.id);
  const rows = await storage.readEffects({ sessionId: checkpoint.sessionId, branch });
  const place = { sessionId: target, branch: bucketOf(target, graph.id) };
  const refs = rows.flatMap(({ result }) => result?.refs ?? []);
  const chunks = refs.length === 0 ? [] : await storage.readReachable(refs);
  await repository.loadChunks({ text: '', refs }); // checks them
  const count = rows.length;
  return {
    rows: rows.map((row) => moveWrites(row, place)),
    chunks,
    refs: count === 0 ? [] : [{ kind: 'log', name: place.branch, expect: null, target: String(count) }],
  };
}

async function copyRefs(
  { storage }: Engine,
  from: SessionId,
  { place, claim, copies, refs: own }: Copy,
): Promise<void> {
  const refs = (await storage.readRefs({ sessionId: from })).map(checkRef);
  const copied = refs
    .filter(({ kind }) => COPIED_KINDS.has(kind))
    .flatMap(({ kind, name, target: old }): RefChange[] => {
      if (kind === 'current') return [{ kind, name, target: old }];
      const id = copies.get(old as CheckpointId)?.id;
      return id === undefined ? [] : [{ kind, name: kind === 'pin' ? id : name, target: id }];
    });
  const names = [...own, ...copied].map((change) => ({ ...change, expect: null }));
  const requires = [...copies.values()].map(({ id }) => id);
  await storage.commit({ sessionId: sessionOf(place), requires, refs: [...names, ...claim.end()] });
}
