import { CheckpointManager } from '../../../src/manager/checkpoint-manager.ts';
import type { Session } from '../../../src/manager/session/session.ts';
import { InMemoryCheckpointStorage } from '../../../src/storage/memory/memory-storage.ts';
import { type Acknowledged, type Attempt, isExpected, type LineState, listIds, type Model } from './model.ts';
import type { Outcome, SimulatedProcess, World } from './world.ts';

/** One thing that a user does in a process; notes in the model what was tried and what was acknowledged. */
export type Command = (world: World, model: Model, process: SimulatedProcess) => Promise<void>;

export const SESSIONS = ['a', 'b', 'c/..'] as const;
const GROUP = 'team';
export const LEASE_MS = 30_000;
/** Words in a text: of none, of a few, and of so many that it is a chunk of its own. */
const WORDS = [0, 3, 100] as const;

const placeOf = (sessionId: string, branch: string): string => `${sessionId} ${branch}`;

/** Notes an error that no other user can be the reason of. */
export function judge(world: World, what: string, outcome: Outcome<unknown>): void {
  if (outcome.kind === 'failed' && !isExpected(outcome.error)) world.faults.push(`${what}: ${outcome.error}`);
}

/** The session as this process has it open; one that was refused is opened anew next time. */
function openSession(process: SimulatedProcess, sessionId: string, branch: string): Promise<Session> {
  const place = placeOf(sessionId, branch);
  const found = process.sessions.get(place) ?? process.manager.session(sessionId, { branch });
  process.sessions.set(place, found);
  found.catch(() => process.sessions.delete(place));
  return found;
}

function dropSession(process: SimulatedProcess, place: string): void {
  void process.sessions
    .get(place)
    ?.then((session) => session.close())
    .catch(() => undefined);
  process.sessions.delete(place);
  process.leases.delete(place);
}

function pickBranch(world: World, model: Model, sessionId: string): string {
  const branches = [...model.session(sessionId).branches];
  return branches[world.random.below(branches.length + 1)] ?? 'main';
}

const save: Command = (world, model, process) => {
  const sessionId = world.random.pick(SESSIONS);
  return saveTo(world, model, { process, sessionId, branch: pickBranch(world, model, sessionId) });
};

export type Place = { readonly process: SimulatedProcess; readonly sessionId: string; readonly branch: string };

export async function saveTo(world: World, model: Model, place: Place & { readonly hasKey?: boolean }): Promise<void> {
  const { process, sessionId, branch, hasKey = world.random.below(3) === 0 } = place;
  const type = world.random.below(4) === 0 ? 'routine' : 'manual';
  const [words, isShared] = [world.random.pick(WORDS), world.random.below(2) === 0];
  const opened = await process.call(() => openSession(process, sessionId, branch));
  judge(world, 'open', opened);
  if (opened.kind !== 'done') return;
  const before = opened.value.state as LineState | undefined;
  const line = before === undefined ? [] : [...before.line, before.n];
  const n = model.next();
  const text = `${isShared ? 'same' : n} `.repeat(words);
  const attempt: Attempt = { sessionId, branch, type, state: { n, line, text }, key: hasKey ? `key ${n}` : undefined };
  model.session(sessionId);
  model.attempts.set(n, attempt);
  await commit(world, model, { process, session: opened.value, attempt });
}

type Saving = {
  readonly process: SimulatedProcess;
  readonly session: Session;
  readonly attempt: Attempt;
};

async function commit(world: World, model: Model, { process, session, attempt }: Saving): Promise<void> {
  const { sessionId, branch, type, state, key } = attempt;
  const place = placeOf(sessionId, branch);
  const lease = process.leases.get(place);
  const isStale =
    lease !== undefined && !process.leasing.has(place) && (model.leases.get(place)?.epoch ?? 0) > lease.epoch;
  const outcome = await process.call(() => session.save(state, { type, idempotencyKey: key }));
  judge(world, `save ${state.n} to ${sessionId}`, outcome);
  if (outcome.kind === 'done') {
    attempt.id = outcome.value;
    model.session(sessionId).branches.add(branch);
    // Who asked for the lease again meanwhile may have it under a new epoch.
    const isSame = process.leases.get(place) === lease && !process.leasing.has(place);
    if (isStale && isSame)
      world.faults.push(`save ${state.n} went through under epoch ${lease.epoch}, which was taken over`);
  }
  if (outcome.kind === 'failed') dropSession(process, place);
}

/** A user who does not know whether a save with a key was stored saves again. */
export const retry: Command = async (world, model, process) => {
  const open = [...model.attempts.values()].filter(({ id, key }) => id === undefined && key !== undefined);
  const attempt = open[world.random.below(open.length)];
  if (attempt === undefined) return;
  const { sessionId, branch, state } = attempt;
  dropSession(process, placeOf(sessionId, branch));
  // A session of its own: while the save is under way its state is the one that may be stored already.
  const opened = await process.call(() => process.manager.session(sessionId, { branch }));
  if (opened.kind !== 'done') return judge(world, 'open', opened);
  const head = opened.value.state as LineState | undefined;
  // Stored and not pruned, which ends its key, or nothing came since: otherwise the state would forget what others saved.
  const known = await process.call(() => isStored(process, attempt));
  if (known.kind !== 'done') return judge(world, 'list', known);
  if (known.value || head?.n === state.line.at(-1))
    await commit(world, model, { process, session: opened.value, attempt });
};

async function isStored({ manager }: SimulatedProcess, { sessionId, key }: Attempt): Promise<boolean> {
  const { checkpoints } = await manager.list({ sessionId });
  return checkpoints.some(({ header }) => header.idempotencyKey === key);
}

function pickAcknowledged(world: World, model: Model): Acknowledged | undefined {
  const known = model.acknowledged();
  return known[world.random.below(known.length)];
}

const fork: Command = async (world, model, process) => {
  const attempt = pickAcknowledged(world, model);
  if (attempt === undefined) return;
  const branch = `b${model.next()}`;
  const isRewind = world.random.below(3) === 0;
  const outcome = await process.call(() =>
    isRewind ? process.manager.rewind(attempt.id, { branch }) : process.manager.fork(attempt.id, { branch }),
  );
  // An ancestor of another branch than the current one cannot be rewound to.
  if (!isRewind) judge(world, `fork at ${attempt.id}`, outcome);
};

const tag: Command = async (world, model, process) => {
  const attempt = pickAcknowledged(world, model);
  if (attempt !== undefined) await tagAt(world, model, { process, attempt });
};

type Tagging = { readonly process: SimulatedProcess; readonly attempt: Acknowledged };

export async function tagAt(world: World, model: Model, { process, attempt }: Tagging): Promise<void> {
  const { sessionId, id } = attempt;
  const name = `t${model.next()}`;
  const outcome = await process.call(() => process.manager.tag(id, name));
  judge(world, `tag ${id}`, outcome);
  if (outcome.kind === 'done' && model.attempts.get(attempt.state.n) === attempt)
    model.tags.set(placeOf(sessionId, name), { sessionId, name, id });
}

const untag: Command = async (world, model, process) => {
  const [place, found] = [...model.tags][world.random.below(model.tags.size)] ?? [];
  if (place === undefined || found === undefined) return;
  model.tags.delete(place);
  judge(world, 'untag', await process.call(() => process.manager.untag(found.sessionId, found.name)));
};

const prune: Command = async (world, _, process) => {
  const policy = { keepLast: 1 + world.random.below(3) };
  const sessionId = world.random.below(2) === 0 ? world.random.pick(SESSIONS) : undefined;
  judge(world, 'prune', await process.call(() => process.manager.prune({ policy, sessionId })));
};

const gc: Command = async (world, _, process) => {
  judge(world, 'gc', await process.call(() => process.manager.gc()));
};

const deleteSession: Command = async (world, model, process) => {
  const sessionId = world.random.pick(SESSIONS);
  model.forgetSession(sessionId);
  judge(world, 'delete', await process.call(() => process.manager.deleteSession(sessionId)));
  model.forgetSession(sessionId);
};

const lease: Command = (world, model, process) =>
  takeLease(world, model, { process, sessionId: world.random.pick(SESSIONS), branch: 'main' });

export async function takeLease(world: World, model: Model, { process, sessionId, branch }: Place): Promise<void> {
  const place = placeOf(sessionId, branch);
  const renew = world.random.below(2) === 0 ? 'auto' : 'manual';
  const opened = await process.call(() => openSession(process, sessionId, branch));
  if (opened.kind !== 'done') return judge(world, 'open', opened);
  const deletions = model.session(sessionId).deletions;
  process.leasing.add(place);
  const outcome = await process.call(() => opened.value.lease({ ttlMs: LEASE_MS, renew }));
  process.leasing.delete(place);
  judge(world, 'lease', outcome);
  // An answer that comes later than the lease lasts is of one that is over.
  if (outcome.kind !== 'done' || !outcome.value.isHeld) return;
  const before = model.leases.get(place);
  const held = before?.process.leases.get(place);
  const isOther = before !== undefined && before.process !== process && !before.process.isDead;
  if (isOther && held?.epoch === before.epoch && held.isHeld) world.faults.push(`two hold the lease of ${place}`);
  process.leases.set(place, outcome.value);
  const { epoch } = outcome.value;
  if (before !== undefined && epoch < before.epoch && model.session(sessionId).deletions === deletions)
    world.faults.push(`the lease of ${place} went from epoch ${before.epoch} back to ${epoch}`);
  if (epoch >= (before?.epoch ?? 0)) model.leases.set(place, { epoch, process });
}

const release: Command = async (world, _, process) => {
  const [place, held] = [...process.leases][world.random.below(process.leases.size)] ?? [];
  if (place === undefined || held === undefined) return;
  process.leases.delete(place);
  judge(world, 'release', await process.call(() => held.release()));
};

export const group: Command = async (world, model, process) => {
  const cut = model.next();
  const others = world.processes.some(({ isMember }) => isMember) ? ['z'] : [];
  const local = ['x', 'y'].map((name) => ({ name, agent: { cut, name }, sessionId: `member-${name}` }));
  const outcome = await process.call(() =>
    process.workers.saveGroup([...local, ...others], { groupId: GROUP, timeoutMs: 20_000, pollMs: 1_000 }),
  );
  judge(world, 'save a group', outcome);
  if (outcome.kind === 'done') model.groups.set(outcome.value.id, { cut, members: ['x', 'y'], others });
};

/** The process takes part in groups from now on, as the one member that others know by its name. */
const join: Command = async (world, _, process) => {
  if (world.processes.some(({ isMember }) => isMember)) return;
  process.isMember = true;
  const joined = await process.call(() =>
    process.workers.joinGroup(GROUP, 'z', {
      pollMs: 5_000,
      onCut: (cut) => cut.save({ agent: { cut: cut.id }, sessionId: 'member-z' }),
      onError: (error) => judge(world, 'take part in a group', { kind: 'failed', error }),
    }),
  );
  judge(world, 'join', joined);
};

/** Brings a session to the other store; what an import must make of the lines says a storage in memory. */
export async function transferOf(
  world: World,
  model: Model,
  { process, sessionId }: Omit<Place, 'branch'>,
): Promise<void> {
  const exported = await process.call(() => collect(process.manager.exportSession(sessionId)));
  judge(world, 'export', exported);
  if (exported.kind !== 'done') return;
  const scratch = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  const checked = await process.call(() => scratch.importSession(linesOf(exported.value)));
  judge(world, 'import what was exported', checked);
  if (checked.kind !== 'done') return;
  const expected = await listIds(scratch, sessionId);
  const known = model.imports.get(sessionId) ?? { tried: [] };
  model.imports.set(sessionId, known);
  known.tried.push(expected);
  const outcome = await process.call(() => process.other.importSession(linesOf(exported.value)));
  judge(world, 'import', outcome);
  if (outcome.kind === 'done' && model.imports.get(sessionId) === known) known.done = expected;
}

const transfer: Command = (world, model, process) =>
  transferOf(world, model, { process, sessionId: world.random.pick(SESSIONS) });

async function collect(lines: AsyncIterable<string>): Promise<string[]> {
  const found: string[] = [];
  for await (const line of lines) found.push(line);
  return found;
}

async function* linesOf(lines: readonly string[]): AsyncGenerator<string> {
  yield* lines;
}

const dropImport: Command = async (world, model, process) => {
  const [sessionId, known] = [...model.imports][world.random.below(model.imports.size)] ?? [];
  if (sessionId === undefined || known === undefined) return;
  const { tried } = known;
  model.imports.set(sessionId, { tried });
  judge(world, 'delete an import', await process.call(() => process.other.deleteSession(sessionId)));
  const done = model.imports.get(sessionId)?.done;
  model.imports.set(sessionId, { tried, ...(done === undefined && {}) });
};

/** Commands by how often they come. */
export type Drawn = readonly (readonly [weight: number, name: string, command: Command])[];

export const COMMANDS: Drawn = [
  [30, 'save', save],
  [8, 'retry', retry],
  [5, 'fork', fork],
  [6, 'tag', tag],
  [2, 'untag', untag],
  [7, 'prune', prune],
  [8, 'gc', gc],
  [2, 'delete', deleteSession],
  [8, 'lease', lease],
  [2, 'release', release],
  [5, 'group', group],
  [3, 'join', join],
  [5, 'transfer', transfer],
  [2, 'drop import', dropImport],
];
