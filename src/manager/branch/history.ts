import { CorruptError, InvalidInputError } from '../../core/errors.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { Tombstone } from '../../core/record/checkpoint-header.ts';
import {
  type CheckpointId,
  type GivenId,
  isCheckpointId,
  parseSessionId,
  type SessionId,
} from '../../core/record/id.ts';
import type { JsonValue } from '../../core/value/json.ts';
import type { CheckpointQuery } from '../../storage/contract.ts';
import { checkRef } from '../../storage/ref.ts';
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
  manager: Pick<History, 'list'>,
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

/** Looks at checkpoints without loading states. */
export class History {
  readonly #engine: Engine;

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  async list(filter: ListFilter, page: ListPage = {}): Promise<CheckpointPage> {
    const found = await this.#list(filter, page);
    if (found.checkpoints.length === 0) await this.#engine.repository.checkKeys(); // encrypted names fit no filter
    return found;
  }

  async #list(filter: ListFilter, page: ListPage): Promise<CheckpointPage> {
    await this.#engine.settled();
    const { limit = DEFAULT_LIMIT } = page;
    const named = parseNames(filter);
    const query = { ...this.#toQuery(filter), ...named, ...toPaging(page) };
    const checkpoints: Checkpoint[] = [];
    for (let more: Partial<CheckpointQuery> = {}; ; ) {
      const wanted = limit - checkpoints.length;
      const rows = await this.#engine.storage.listCheckpoints({ ...query, ...more, limit: wanted + 1 });
      const there = await withoutPending(this.#engine.storage, rows.slice(0, wanted));
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

  async latest(filter: ListFilter): Promise<Checkpoint | undefined> {
    await this.#engine.settled();
    return (await this.list(filter, { limit: 1 })).checkpoints[0];
  }

  #toQuery({ from, to, metadata }: ListFilter): Omit<CheckpointQuery, 'limit'> {
    return {
      ...(from !== undefined && { fromMs: from.getTime() }),
      ...(to !== undefined && { toMs: to.getTime() }),
      ...(metadata !== undefined && { metadata: this.#encodeFields(metadata) }),
    };
  }

  #encodeFields(fields: { readonly [key: string]: unknown }): { [key: string]: JsonValue } {
    return Object.fromEntries(
      Object.entries(fields).map(([key, value]) => [key, this.#engine.codec.encodeJson(value)]),
    );
  }

  async branches(sessionId: string): Promise<BranchHead[]> {
    await this.#engine.settled();
    const refs = await this.#engine.repository.readRefs({ sessionId: parseSessionId(sessionId), kind: 'branch' });
    return refs
      .map(checkRef)
      .map((ref) => ({ sessionId: ref.sessionId, branch: ref.name, headId: ref.target as CheckpointId }));
  }

  async tree(sessionId: string): Promise<SessionTree> {
    await this.#engine.settled();
    const id = parseSessionId(sessionId);
    for (let look = 1; ; look++) {
      const branches = await this.branches(id); // first, so that their heads are among the nodes
      const nodes = await this.#readNodes(id);
      const hidden = findHidden(nodes, branches);
      if (hidden === undefined) return toTree(id, nodes, branches);
      if (look === MAX_LOOKS)
        throw new CorruptError(`Checkpoint ${hidden} is missing from session "${id}". Run verify.`, {
          details: { sessionId: id, id: hidden },
        });
    }
  }

  async #readNodes(sessionId: SessionId): Promise<Nodes> {
    const nodes = new Map<CheckpointId, SessionTreeNode>();
    const place = { sessionId, order: 'oldest', include: 'all' } as const;
    for await (const rows of readPages(this.#engine.storage, place))
      for (const row of await withoutPending(this.#engine.storage, rows)) addNode(nodes, toEntry(row)); // a parent comes before its children
    return nodes;
  }

  /** The checkpoints saved directly on top of this one, oldest first. */
  async children(idOrPrefix: string): Promise<Checkpoint[]> {
    await this.#engine.settled();
    const { checkpoint } = await this.#engine.repository.open(idOrPrefix);
    const children: Checkpoint[] = [];
    for await (const entry of readSession(this.#engine.storage, checkpoint.sessionId)) {
      if (entry.id <= checkpoint.id) break; // a child's id is always greater
      if (entry.parentId === checkpoint.id && entry.checkpoint !== undefined) children.unshift(entry.checkpoint);
    }
    return children;
  }

  /** The way from a checkpoint to its root, itself first; deleted ones are there as tombstones. */
  async pathToRoot(idOrPrefix: string): Promise<LineageEntry[]> {
    await this.#engine.settled();
    const { checkpoint } = await this.#engine.repository.open(idOrPrefix);
    const path: LineageEntry[] = [];
    for await (const entry of readPath(this.#engine.storage, checkpoint)) path.push(entry);
    return path;
  }
}

const NAMED_FIELDS = ['sessionId', 'branch', 'agentId', 'userId', 'type', 'status'] as const;

type NamedFields = { readonly [Field in (typeof NAMED_FIELDS)[number]]?: string };

/** The names that are asked for, as headers have them. */
function parseNames(filter: ListFilter): NamedFields {
  const given = NAMED_FIELDS.filter((field) => filter[field] !== undefined);
  return Object.fromEntries(given.map((field) => [field, String(filter[field])]));
}

/** A damaged index may answer with a checkpoint that was not asked for, another user's for instance. */
function checkAnswer(checkpoint: Checkpoint, filter: NamedFields): Checkpoint {
  const field = NAMED_FIELDS.find((name) => filter[name] !== undefined && filter[name] !== checkpoint.header[name]);
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
