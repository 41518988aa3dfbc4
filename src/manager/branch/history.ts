import { CorruptError, InvalidInputError } from '../../core/errors.ts';
import { mapValues } from '../../core/map-values.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { Tombstone } from '../../core/record/checkpoint-header.ts';
import {
  type CheckpointId,
  type GivenId,
  isCheckpointId,
  parseSessionId,
  type SessionId,
} from '../../core/record/id.ts';
import type { CheckpointQuery } from '../../storage/contract.ts';
import { EQUALITY_FIELDS } from '../../storage/query.ts';
import type { Engine } from '../engine/engine.ts';
import { withoutPending } from '../engine/import-claim.ts';
import {
  type LineageEntry,
  parseRow,
  parseRows,
  readPages,
  readPath,
  readSession,
  toEntry,
} from '../engine/records.ts';

/** Which checkpoints a list is about; conditions are combined with "and", names match exactly. */
export type ListFilter = {
  readonly sessionId?: string | undefined;
  readonly branch?: string | undefined;
  readonly agentId?: GivenId | undefined;
  readonly userId?: GivenId | undefined;
  readonly type?: string | undefined;
  readonly status?: string | undefined;
  readonly from?: Date | undefined;
  readonly to?: Date | undefined;
  readonly metadata?: { readonly [key: string]: unknown } | undefined;
};

/** How much of a list is wanted, and from where on. */
export type ListPage = {
  /** `newest` (default) or `oldest` first, in the order of lineage. */
  readonly order?: 'newest' | 'oldest' | undefined;
  /** At most this many; default 50, at most 1,000. */
  readonly limit?: number | undefined;
  readonly offset?: number | undefined;
  /** The `nextCursor` of the page before. */
  readonly cursor?: string | undefined;
};

/** One page of checkpoints, without their states. `nextCursor` is absent on the last page. */
export type CheckpointPage = { readonly checkpoints: readonly Checkpoint[]; readonly nextCursor?: string };

/** One checkpoint of a session's tree; of a deleted one only the tombstone is left. */
export type SessionTreeNode = {
  readonly id: CheckpointId;
  readonly parentId: CheckpointId | undefined;
  readonly children: readonly CheckpointId[];
  readonly checkpoint: Checkpoint | undefined;
  readonly tombstone: Tombstone | undefined;
};

/** The whole history of a session: its branches and how its checkpoints hang together. */
export type SessionTree = {
  readonly sessionId: SessionId;
  readonly roots: readonly CheckpointId[];
  readonly leaves: readonly CheckpointId[];
  readonly nodes: ReadonlyMap<CheckpointId, SessionTreeNode>;
  readonly branches: readonly BranchHead[];
};

/** A branch and the checkpoint it is at. */
export type BranchHead = { readonly sessionId: SessionId; readonly branch: string; readonly headId: CheckpointId };

type Nodes = SessionTree['nodes'];

const DEFAULT_LIMIT = 50;
/** So often the tree of a session is read before something that is missing from it counts as damage, and not as deleted meanwhile. */
const MAX_LOOKS = 3;

/** Every checkpoint that fits, page by page. */
export async function* eachCheckpoint(
  manager: { list(filter: ListFilter, page?: ListPage): Promise<CheckpointPage> },
  filter: ListFilter,
  order: 'newest' | 'oldest' = 'newest',
): AsyncGenerator<Checkpoint> {
  let cursor: string | undefined;
  do {
    const page = await manager.list(filter, { limit: 1_000, order, ...(cursor !== undefined && { cursor }) });
    yield* page.checkpoints;
    cursor = page.nextCursor;
  } while (cursor !== undefined);
}

/** A page of the checkpoints that fit, without their states. */
export async function list(engine: Engine, filter: ListFilter, page: ListPage = {}): Promise<CheckpointPage> {
  const found = await readPage(engine, filter, page);
  if (found.checkpoints.length === 0) await engine.repository.checkKeys(); // encrypted names fit no filter
  return found;
}

async function readPage(engine: Engine, filter: ListFilter, page: ListPage): Promise<CheckpointPage> {
  await engine.settled();
  const { storage } = engine;
  const { limit = DEFAULT_LIMIT } = page;
  const named = parseNames(filter);
  const query = { ...toQuery(engine, filter), ...named, ...toPaging(page) };
  const checkpoints: Checkpoint[] = [];
  for (let more: Partial<CheckpointQuery> = {}; ; ) {
    const wanted = limit - checkpoints.length;
    const rows = await storage.listCheckpoints({ ...query, ...more, limit: wanted + 1 });
    const there = await withoutPending(storage, rows.slice(0, wanted));
    const { checkpoints: found, damaged } = await parseRows(there);
    // Of one session all must be sound; what is damaged elsewhere does not stand in the way of the rest.
    if (named.sessionId !== undefined) damaged.map(parseRow);
    for (const checkpoint of found) checkpoints.push(checkAnswer(checkpoint, named));
    const last = rows[wanted - 1]?.id;
    if (rows.length <= wanted || last === undefined) return { checkpoints };
    if (checkpoints.length === limit) return { checkpoints, nextCursor: last };
    more = { after: last, offset: 0 };
  }
}

function toQuery({ codec }: Engine, { from, to, metadata }: ListFilter): Omit<CheckpointQuery, 'limit'> {
  return {
    ...(from !== undefined && { fromMs: from.getTime() }),
    ...(to !== undefined && { toMs: to.getTime() }),
    ...(metadata !== undefined && { metadata: mapValues(metadata, (value) => codec.encodeJson(value)) }),
  };
}

/** The branches of a session, each with its head. */
export async function branches(engine: Engine, sessionId: string): Promise<BranchHead[]> {
  await engine.settled();
  const refs = await engine.repository.readRefs({ sessionId: parseSessionId(sessionId), kind: 'branch' });
  return refs.map((ref) => ({ sessionId: ref.sessionId, branch: ref.name, headId: ref.target as CheckpointId }));
}

/** All checkpoints of a session and how they hang together. */
export async function tree(engine: Engine, sessionId: string): Promise<SessionTree> {
  const id = parseSessionId(sessionId);
  for (let look = 1; ; look++) {
    const heads = await branches(engine, id); // first, so that they are among the nodes
    const nodes = await readNodes(engine, id);
    const hidden = findHidden(nodes, heads);
    if (hidden === undefined) return toTree(id, nodes, heads);
    if (look === MAX_LOOKS)
      throw new CorruptError(`Checkpoint ${hidden} is missing from session "${id}". Run verify.`, {
        details: { sessionId: id, id: hidden },
      });
  }
}

async function readNodes({ storage }: Engine, sessionId: SessionId): Promise<Nodes> {
  const nodes = new Map<CheckpointId, SessionTreeNode>();
  for await (const rows of readPages(storage, { sessionId, order: 'oldest', include: 'all' }))
    for (const row of await withoutPending(storage, rows)) addNode(nodes, toEntry(row)); // a parent comes before its children
  return nodes;
}

/** The checkpoints saved directly on top of this one, oldest first. */
export async function children(engine: Engine, idOrPrefix: string): Promise<Checkpoint[]> {
  await engine.settled();
  const { id, sessionId } = await engine.open(idOrPrefix);
  const found: Checkpoint[] = [];
  for await (const entry of readSession(engine.storage, sessionId)) {
    if (entry.id <= id) break; // a child's id is always greater
    if (entry.parentId === id && entry.checkpoint !== undefined) found.unshift(entry.checkpoint);
  }
  return found;
}

/** The way from a checkpoint to its root, itself first; deleted ones are there as tombstones. */
export async function pathToRoot(engine: Engine, idOrPrefix: string): Promise<LineageEntry[]> {
  await engine.settled();
  const path: LineageEntry[] = [];
  for await (const entry of readPath(engine.storage, await engine.open(idOrPrefix))) path.push(entry);
  return path;
}

type NamedFields = { readonly [Field in (typeof EQUALITY_FIELDS)[number]]?: string };

function parseNames(filter: ListFilter): NamedFields {
  const given = EQUALITY_FIELDS.filter((field) => filter[field] !== undefined);
  return Object.fromEntries(given.map((field) => [field, String(filter[field])]));
}

/** A damaged index may answer with a checkpoint that was not asked for, another user's for instance. */
function checkAnswer(checkpoint: Checkpoint, filter: NamedFields): Checkpoint {
  const field = EQUALITY_FIELDS.find((name) => filter[name] !== undefined && filter[name] !== checkpoint.header[name]);
  if (field === undefined) return checkpoint;
  throw new CorruptError(`Checkpoint ${checkpoint.id} is listed under another ${field} than its own. Run verify.`, {
    details: { id: checkpoint.id, field },
  });
}

function toTree(sessionId: SessionId, nodes: Nodes, branches: readonly BranchHead[]): SessionTree {
  const all = [...nodes.values()];
  const roots = all.filter(({ parentId }) => parentId === undefined);
  const leaves = all.filter(({ children }) => children.length === 0);
  return { sessionId, roots: roots.map(({ id }) => id), leaves: leaves.map(({ id }) => id), nodes, branches };
}

/** A head or parent that is not among the nodes: a damaged index hides it, or others deleted it between two reads. */
function findHidden(nodes: Nodes, branches: readonly BranchHead[]): CheckpointId | undefined {
  const needed = [...branches.map(({ headId }) => headId), ...[...nodes.values()].map(({ parentId }) => parentId)];
  return needed.find((id) => id !== undefined && !nodes.has(id));
}

function addNode(
  nodes: Map<CheckpointId, SessionTreeNode>,
  { id, parentId, checkpoint, tombstone }: LineageEntry,
): void {
  nodes.set(id, { id, parentId, checkpoint, tombstone, children: [] });
  const parent = parentId === undefined ? undefined : nodes.get(parentId);
  (parent?.children as CheckpointId[] | undefined)?.push(id);
}

function toPaging({
  order = 'newest',
  offset = 0,
  cursor,
}: ListPage): Pick<CheckpointQuery, 'order' | 'offset' | 'after'> {
  if (cursor !== undefined && !isCheckpointId(cursor)) {
    throw new InvalidInputError(`A cursor must be the nextCursor of an earlier page; found ${JSON.stringify(cursor)}.`);
  }
  return { order, offset, ...(cursor !== undefined && { after: cursor }) };
}
