import { hasErrorCode } from '../../../src/core/errors.ts';
import type { CheckpointId } from '../../../src/core/record/id.ts';
import type { SessionTreeNode } from '../../../src/manager/branch/history.ts';
import type { CheckpointManager } from '../../../src/manager/checkpoint-manager.ts';
import { isSameValue } from '../../support/same-value.ts';
import type { SimulatedProcess } from './world.ts';

/** Every state says which save it is of, and which saves it goes back to. */
export type LineState = { readonly n: number; readonly line: readonly number[]; readonly text: string };

/** A save that was tried. It is acknowledged once its id is known. */
export type Attempt = {
  readonly sessionId: string;
  readonly branch: string;
  readonly type: string;
  readonly state: LineState;
  readonly key: string | undefined;
  id?: CheckpointId;
};

export type Acknowledged = Attempt & { id: CheckpointId };

type SessionModel = {
  /** Somebody tried to delete it: what was acknowledged before may be gone. */
  deletions: number;
  readonly branches: Set<string>;
};

/** What users know of a storage: what they asked for, and what was acknowledged. */
export class Model {
  readonly attempts = new Map<number, Attempt>();
  readonly sessions = new Map<string, SessionModel>();
  /** Acknowledged and not given up: by session and name. */
  readonly tags = new Map<string, { readonly sessionId: string; readonly name: string; readonly id: CheckpointId }>();
  /** The highest epoch that was acknowledged, by session and branch, with who has it until when. */
  readonly leases = new Map<string, { readonly epoch: number; readonly process: SimulatedProcess }>();
  /** Group checkpoints by id: the number of their cut. */
  readonly groups = new Map<
    CheckpointId,
    { readonly cut: number; readonly members: readonly string[]; readonly others: readonly string[] }
  >();
  /** By session: what an import was tried with, and the one that was acknowledged. */
  readonly imports = new Map<string, { readonly tried: string[]; done?: string }>();
  #last = 0;

  next(): number {
    return ++this.#last;
  }

  session(sessionId: string): SessionModel {
    const found = this.sessions.get(sessionId) ?? { deletions: 0, branches: new Set<string>() };
    this.sessions.set(sessionId, found);
    return found;
  }

  /** Acknowledged saves, newest last. */
  acknowledged(): Acknowledged[] {
    return [...this.attempts.values()].filter((attempt): attempt is Acknowledged => attempt.id !== undefined);
  }

  /** Nothing that was acknowledged in a session before binds any more. */
  forgetSession(sessionId: string): void {
    this.session(sessionId).deletions++;
    this.session(sessionId).branches.clear();
    for (const [n, attempt] of this.attempts) if (attempt.sessionId === sessionId) this.attempts.delete(n);
    for (const [key, tag] of this.tags) if (tag.sessionId === sessionId) this.tags.delete(key);
    for (const key of this.leases.keys()) if (key.startsWith(`${sessionId} `)) this.leases.delete(key);
  }
}

/** Compares what is stored with what users know; returns what does not fit. */
export async function findFaults(model: Model, process: SimulatedProcess): Promise<string[]> {
  const { manager, other, workers } = process;
  const faults: string[] = [];
  for (const checked of model.imports.size > 0 ? [manager, other] : [manager]) {
    const { findings } = await checked.verify();
    faults.push(...findings.map(({ subject, problem }) => `verify: ${subject}: ${problem}`));
  }
  for (const sessionId of model.sessions.keys()) faults.push(...(await checkSession(model, manager, sessionId)));
  for (const { sessionId, name, id } of model.tags.values()) {
    const tag = (await manager.tags(sessionId)).find((found) => found.name === name);
    if (tag?.checkpointId !== id) faults.push(`tag ${name} of ${sessionId} is lost`);
    if ((await manager.get(id)) === undefined) faults.push(`${id} was deleted in spite of its tag ${name}`);
  }
  for (const [id, { cut, members, others }] of model.groups) {
    if ((await manager.get(id)) === undefined) continue; // retention may have taken it, with its members
    const restored = await workers.restoreGroup(id);
    const cutOf = (name: string) => (restored.members.get(name)?.state as { cut?: unknown } | undefined)?.cut;
    const isOneCut = members.every((name) => cutOf(name) === cut) && others.every((name) => cutOf(name) === id);
    if (!isOneCut) faults.push(`group ${id} is not of one cut: ${[...members, ...others].map(cutOf)}, not ${cut}`);
  }
  for (const [sessionId, { tried, done }] of model.imports) {
    const found = await listIds(other, sessionId);
    if (done !== undefined && found !== done) faults.push(`the import of ${sessionId} is not what was acknowledged`);
    if (done === undefined && found !== '' && !tried.includes(found)) faults.push(`${sessionId} was imported in part`);
  }
  return faults;
}

/** The checkpoints of a session and what its names point at, as one text. */
export async function listIds(manager: CheckpointManager, sessionId: string): Promise<string> {
  const { nodes, branches } = await manager.tree(sessionId);
  const [live, tags] = [[...nodes.values()].filter(({ checkpoint }) => checkpoint), await manager.tags(sessionId)];
  if (live.length + branches.length + tags.length === 0) return '';
  return JSON.stringify([
    live.map(({ id }) => id).sort(),
    branches.map(({ branch, headId }) => [branch, headId]),
    tags,
  ]);
}

async function checkSession(model: Model, manager: CheckpointManager, sessionId: string): Promise<string[]> {
  const faults: string[] = [];
  const { nodes, branches } = await manager.tree(sessionId);
  const states = new Map<CheckpointId, LineState>();
  const seen = new Map<number, CheckpointId>();
  for (const { id, checkpoint } of nodes.values()) {
    if (checkpoint === undefined) continue;
    const state = (await manager.load(id)) as LineState;
    states.set(id, state);
    const attempt = model.attempts.get(state.n);
    if (attempt === undefined) {
      if (model.session(sessionId).deletions === 0) faults.push(`${id} of ${sessionId} was never saved`);
      continue;
    }
    if (!isSameValue(state, attempt.state)) faults.push(`${id} is not the state that was saved`);
    if (seen.has(state.n)) faults.push(`save ${state.n} is stored twice, as ${seen.get(state.n)} and ${id}`);
    seen.set(state.n, id);
  }
  const heads = new Map(branches.map(({ branch, headId }) => [branch, headId]));
  for (const { id, branch, state } of model.acknowledged().filter((attempt) => attempt.sessionId === sessionId)) {
    const isKnown = nodes.has(id) || isFolded(nodes.values(), id, branch);
    if (!isKnown) faults.push(`${id}, save ${state.n} of ${sessionId}, was acknowledged and has vanished`);
    if (!model.session(sessionId).branches.has(branch)) continue;
    const head = states.get(heads.get(branch) as CheckpointId);
    if (head === undefined) faults.push(`branch ${branch} of ${sessionId} lost its head`);
    else if (![...head.line, head.n].includes(state.n))
      faults.push(`branch ${branch} of ${sessionId} has forgotten save ${state.n}`);
  }
  return faults;
}

/** Whether a tombstone stands for it, too. */
function isFolded(nodes: Iterable<SessionTreeNode>, id: CheckpointId, branch: string): boolean {
  return [...nodes].some(({ tombstone }) => {
    const { foldedFrom } = tombstone ?? {};
    return foldedFrom !== undefined && tombstone?.branch === branch && id >= foldedFrom && id < tombstone.id;
  });
}

/** Errors that say what other users did, or that the session was closed here meanwhile. Anything else is a fault. */
const EXPECTED = ['CONFLICT', 'NOT_FOUND', 'CLOSED'] as const;

export const isExpected = (error: unknown): boolean => EXPECTED.some((code) => hasErrorCode(error, code));
