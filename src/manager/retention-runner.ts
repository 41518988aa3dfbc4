import type { Checkpoint } from '../core/checkpoint.ts';
import type { CheckpointHeader } from '../core/checkpoint-header.ts';
import type { CheckpointId } from '../core/id.ts';
import type { CheckpointQuery, Ref } from '../storage/contract.ts';
import type { ManagerContext } from './context.ts';
import { groupOfPin, releaseStalePins } from './group-pins.ts';
import { parseRow } from './repository.ts';
import { judge, type RetentionPolicy, type Verdict } from './retention.ts';
import { SessionNeeds } from './retention-needs.ts';
import { formatTombstone } from './tombstone.ts';

/** What retention did, or would do. */
export type PruneResult = {
  readonly verdicts: readonly Verdict[];
  readonly deleted: readonly CheckpointId[];
  readonly isDryRun: boolean;
};

/** After a save the storage's own guard is enough: it never deletes what a branch, tag or pin points at. */
const UNKNOWN: Protections = { protections: new Map(), completed: new Set(), cleared: new Set() };

const PAGE = 500;
const DELETE_BATCH = 200;

/** Kinds of refs that protect what they point at, and how a verdict words it. */
const PROTECTING = new Map<string, (ref: Ref) => string>([
  ['branch', (ref) => `head of branch ${ref.name}`],
  ['tag', (ref) => `tagged ${ref.name}`],
  ['pin', describePin],
]);

function describePin(ref: Ref): string {
  const groupId = groupOfPin(ref);
  return groupId === undefined ? 'pinned' : `part of group ${groupId}`;
}

/** Applies a retention policy to a storage. Deleting leaves tombstones; chunks go with the next gc. */
export class RetentionRunner {
  readonly #context: ManagerContext;
  readonly #policy: RetentionPolicy;
  readonly #needs: SessionNeeds;

  constructor(context: ManagerContext, policy: RetentionPolicy) {
    this.#context = context;
    this.#policy = policy;
    this.#needs = new SessionNeeds(context.storage);
  }

  /** Judges everything; deletes what is not kept unless `dryRun`. Another policy still follows the types' own rules. */
  async prune({
    policy = this.#policy,
    dryRun = false,
  }: {
    policy?: RetentionPolicy;
    dryRun?: boolean;
  } = {}): Promise<PruneResult> {
    const stalePins = await releaseStalePins(this.#context, { dryRun });
    const whole = { types: this.#policy.types ?? {}, ...policy };
    const verdicts = await this.#judge(whole, stalePins);
    return { verdicts, deleted: dryRun ? [] : await this.#delete(verdicts), isDryRun: dryRun };
  }

  /** After a save only what this save can have pushed out is judged, so its cost does not follow the history. */
  async afterSave({ header }: Checkpoint): Promise<readonly CheckpointId[]> {
    const rule = this.#policy.types?.[header.type];
    const deleted: CheckpointId[] = [];
    if (rule?.keepLast !== undefined || rule?.maxAgeMs !== undefined) {
      const peers = await this.#readAll({ type: header.type, ...ownerOf(header) });
      const verdicts = judge({
        checkpoints: peers,
        policy: { types: { [header.type]: rule } },
        ...UNKNOWN,
        nowMs: this.#context.ports.now(),
      });
      deleted.push(...(await this.#deleteUnneeded(peers, verdicts)));
    }
    const { maxCheckpoints, maxCheckpointsPerUser } = this.#policy;
    if (maxCheckpoints !== undefined) deleted.push(...(await this.#dropBeyond({}, maxCheckpoints)));
    if (maxCheckpointsPerUser !== undefined && header.userId !== undefined) {
      deleted.push(...(await this.#dropBeyond({ userId: header.userId }, maxCheckpointsPerUser)));
    }
    return deleted;
  }

  /** Drops the oldest above a limit. What is protected stays, so a few more may remain. */
  async #dropBeyond(filter: Omit<CheckpointQuery, 'limit'>, limit: number): Promise<CheckpointId[]> {
    const rows = await this.#context.storage.listCheckpoints({
      ...filter,
      order: 'newest',
      offset: limit,
      limit: PAGE,
    });
    const reason = `more than ${limit} checkpoints`;
    const isNeeded = (type: string) => this.#policy.types?.[type]?.untilCompleted === true;
    const doomed = rows.map((row) => parseRow(row).header).filter(({ type }) => !isNeeded(type));
    return this.#deleteUnneeded(
      doomed,
      doomed.map(({ id }) => ({ id, keep: false, reason })),
    );
  }

  /** Deletes what is not kept, except what something in its session needs that was not judged, or that the storage guards. */
  async #deleteUnneeded(judged: readonly CheckpointHeader[], verdicts: readonly Verdict[]): Promise<CheckpointId[]> {
    const doomed = new Set(verdicts.flatMap(({ id, keep }) => (keep ? [] : [id])));
    const sessions = new Set(judged.flatMap(({ id, sessionId }) => (doomed.has(id) ? [sessionId] : [])));
    const needed = new Set<CheckpointId>();
    for (const sessionId of sessions) for (const id of await this.#needs.find(sessionId, doomed)) needed.add(id);
    return this.#delete(verdicts.filter(({ id }) => !needed.has(id)));
  }

  async #judge(policy: RetentionPolicy, stalePins: ReadonlySet<string>): Promise<Verdict[]> {
    // Both before and after: a head that was gone on from meanwhile may be needed by one that is not among those read.
    const before = await this.#readProtections(stalePins);
    const checkpoints = await this.#readAll({});
    const held = await this.#readProtections(stalePins);
    const protections = new Map([...before.protections, ...held.protections]);
    return judge({ checkpoints, policy, ...held, protections, nowMs: this.#context.ports.now() });
  }

  async #readProtections(stalePins: ReadonlySet<string>): Promise<Protections> {
    const protections = new Map<CheckpointId, string[]>();
    const completed = new Set<CheckpointId>();
    const cleared = new Set<CheckpointId>();
    for (const ref of await this.#context.repository.readRefs({})) {
      const id = ref.target as CheckpointId;
      const isStale = ref.kind === 'pin' && stalePins.has(ref.name);
      const reason = isStale ? undefined : PROTECTING.get(ref.kind)?.(ref);
      if (reason !== undefined) protections.set(id, [...(protections.get(id) ?? []), reason]);
      if (ref.kind === 'mark') (ref.name.startsWith('completed:') ? completed : cleared).add(id);
    }
    return { protections, completed, cleared };
  }

  async #readAll(filter: Omit<CheckpointQuery, 'limit'>): Promise<CheckpointHeader[]> {
    const headers: CheckpointHeader[] = [];
    let after: CheckpointId | undefined;
    do {
      const page = { ...filter, limit: PAGE, ...(after !== undefined && { after }) };
      const rows = await this.#context.storage.listCheckpoints(page);
      for (const row of rows) headers.push(parseRow(row).header);
      after = rows.length < PAGE ? undefined : rows.at(-1)?.id;
    } while (after !== undefined);
    return headers;
  }

  async #delete(verdicts: readonly Verdict[]): Promise<CheckpointId[]> {
    // Newest first: where this is cut short, nothing is left without an ancestor that it needs.
    const doomed = verdicts.filter((verdict) => !verdict.keep).toSorted((a, b) => (a.id < b.id ? 1 : -1));
    const deleted: CheckpointId[] = [];
    for (let at = 0; at < doomed.length; at += DELETE_BATCH) {
      deleted.push(...(await deleteCheckpoints(this.#context, doomed.slice(at, at + DELETE_BATCH))));
    }
    return deleted;
  }
}

type Protections = {
  readonly protections: ReadonlyMap<CheckpointId, string[]>;
  readonly completed: ReadonlySet<CheckpointId>;
  readonly cleared: ReadonlySet<CheckpointId>;
};

function ownerOf({ agentId, sessionId }: CheckpointHeader): { agentId: string } | { sessionId: string } {
  return agentId === undefined ? { sessionId } : { agentId };
}

/** Turns checkpoints into tombstones and says so; answers those that were deleted now. */
export async function deleteCheckpoints(
  context: ManagerContext,
  doomed: readonly { readonly id: CheckpointId; readonly reason: string }[],
  options: { readonly force?: boolean } = {},
): Promise<CheckpointId[]> {
  const deletedAtMs = context.ports.now();
  const deletions = await Promise.all(
    doomed.map(async ({ id, reason }) => {
      const row = await context.storage.readCheckpoint(id);
      return row === undefined || row.isDeleted
        ? []
        : [{ id, body: formatTombstone(parseRow(row), deletedAtMs, reason) }];
    }),
  );
  const deleted = await context.storage.deleteCheckpoints(deletions.flat(), options);
  const reasons = new Map(doomed.map(({ id, reason }) => [id, reason]));
  for (const id of deleted) await context.events.emit('checkpoint_deleted', id, reasons.get(id) ?? '');
  return deleted;
}
