import { ConflictError, InvalidInputError, NotFoundError } from '../../core/errors.ts';
import { anything, callback, either, listOf, type OptionChecks, record } from '../../core/options.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import { type CheckpointId, name, parseName, parseSessionId, type SessionId } from '../../core/record/id.ts';
import type { Ref, RefChange } from '../../storage/contract.ts';
import { isRefused } from '../../storage/refusal.ts';
import type { Engine } from '../engine/engine.ts';
import { CURRENT, DEFAULT_BRANCH, makeCurrent, readPath } from '../engine/records.ts';
import type { StoredCheckpoint } from '../engine/repository.ts';
import { describeCheckpoint, type SaveOptions } from '../engine/save-options.ts';
import type { WriteContent, Writer } from '../engine/writer.ts';
import { endLease } from '../lease/lease-refs.ts';
import { checkFree, checkNewBranch, parseRefName } from '../revision/ref-name.ts';
import { type EditRequest, editState, type StateEdit } from './edit-state.ts';
import type { BranchHead } from './history.ts';

/** How a fork is made. */
export type ForkOptions<State = unknown> = {
  /** The new branch's name; chosen if absent. */
  readonly branch?: string | undefined;
  /** The new branch begins with a checkpoint of the edited state. */
  readonly edit?: StateEdit<State> | undefined;
  readonly author?: string | undefined;
  readonly reason?: string | undefined;
};

/** The same for a session, which has to be able to open what is made. */
export type Forking = ForkOptions<never> & {
  /** Rejects if the edited state must not be stored. */
  readonly check?: (edited: unknown) => Promise<unknown>;
};

/** What a fork made. */
export type ForkedBranch = BranchHead & {
  /** Where else an edited message was changed: in each agent's own copy of it. Absent if there is none. */
  readonly copies?: readonly string[];
};

/** How a new branch begins: at a checkpoint, or with another state on top of it. */
type Beginning = {
  /** A rewind makes it the current one. */
  readonly how: 'fork' | 'rewind';
  readonly writer: Writer;
  readonly parent: Checkpoint;
  readonly content: WriteContent | undefined;
  readonly tries: number;
};

/** As many may begin a branch at one checkpoint in the same moment: each loses a name only to one that got it. */
const NAME_TRIES = 1000;
const SWITCH_TRIES = 20;

/** What the options of a fork accept. */
export const FORK_CHECKS: OptionChecks<ForkOptions> = {
  branch: name,
  edit: either('a JSON Patch or a function', callback, listOf(record)),
  author: anything,
  reason: anything,
};

/** Makes a new branch at a checkpoint; costs the same however long the history is. */
export async function fork(engine: Engine, idOrPrefix: string, options: Forking = {}): Promise<ForkedBranch> {
  return beginBranch(engine, await engine.repository.open(idOrPrefix), { ...options, how: 'fork' });
}

/** Makes a branch at an ancestor of the head of a branch, by default the current one, and makes it current. */
export async function rewind(
  engine: Engine,
  idOrPrefix: string,
  { from, ...options }: Forking & { readonly from?: string } = {},
): Promise<ForkedBranch> {
  const origin = await engine.repository.open(idOrPrefix);
  const { sessionId } = origin.checkpoint;
  await checkAncestor(engine, origin.checkpoint, from ?? (await engine.currentBranch(sessionId)));
  const head = await beginBranch(engine, origin, { ...options, how: 'rewind' });
  await engine.noteStanding(sessionId);
  return head;
}

async function checkAncestor(engine: Engine, { id, sessionId }: Checkpoint, branch: string): Promise<void> {
  const headId = await engine.headOf(sessionId, branch);
  if (headId === id) return;
  const head = headId === undefined ? undefined : await engine.open(headId);
  if (head !== undefined) for await (const entry of readPath(engine.storage, head)) if (entry.id === id) return;
  throw new InvalidInputError(
    `Checkpoint ${id} is not an ancestor of branch "${branch}", so there is nothing to rewind. Use fork to branch off it.`,
    { details: { id, branch } },
  );
}

async function beginBranch(
  engine: Engine,
  origin: StoredCheckpoint,
  { how, ...options }: Forking & Pick<Beginning, 'how'>,
): Promise<ForkedBranch> {
  const { edit, branch } = options;
  const { checkpoint: parent } = origin;
  const base = branch ?? `${how}-${parent.sequence}`;
  const begin = async (writer: Writer): Promise<ForkedBranch> => {
    const edited = edit === undefined ? undefined : await editOrigin(engine, origin, { ...options, edit });
    const tries = branch === undefined ? NAME_TRIES : 1;
    const head = await storeHead(engine, base, { how, writer, parent, content: edited?.content, tries });
    return { ...head, ...(edited && edited.copies.length > 0 && { copies: edited.copies }) };
  };
  return engine.write(begin, edit === undefined ? undefined : { sessionId: parent.sessionId, branch: base });
}

/** Under a name that is free. */
async function storeHead(engine: Engine, base: string, beginning: Beginning): Promise<BranchHead> {
  const { sessionId } = beginning.parent;
  const nameOf = (number: number): string => parseRefName(number === 1 ? base : `${base}-${number}`, 'A branch name');
  const isTaken = async (number: number): Promise<boolean> =>
    (await engine.repository.readRefs({ sessionId, name: nameOf(number) })).length > 0;
  for (let [number, attempt] = [1, 1]; ; number = await findFree(number, isTaken), attempt++) {
    const branch = nameOf(number);
    try {
      return { sessionId, branch, headId: await storeHeadOf(engine, branch, beginning) };
    } catch (error) {
      if (attempt === beginning.tries || !isRefused(error, 'moved')) throw nameError(error, sessionId, branch);
    }
  }
}

/** A free number after a taken one. Looked for in steps that double, then halve: a checkpoint that is tried again and again has thousands of branches. */
async function findFree(after: number, isTaken: (number: number) => Promise<boolean>): Promise<number> {
  let [taken, step] = [after, 1];
  for (; await isTaken(taken + step); step *= 2) taken += step;
  while (step > 1) {
    step /= 2;
    if (await isTaken(taken + step)) taken += step;
  }
  return taken + 1;
}

/** Stores what a new branch begins with: an edited state on top of the checkpoint, or the checkpoint itself. */
async function storeHeadOf(
  { storage }: Engine,
  branch: string,
  { how, writer, parent, content }: Beginning,
): Promise<CheckpointId> {
  const { id, sessionId } = parent;
  const refs = [...checkNewBranch(branch), ...(how === 'rewind' ? [makeCurrent(branch)] : [])];
  if (content !== undefined) return (await writer.write({ sessionId, branch, parent, expect: null, refs }, content)).id;
  const begin: RefChange = { kind: 'branch', name: branch, expect: null, target: id };
  await storage.commit({ sessionId, requires: [id], refs: [begin, ...refs] });
  return id;
}

async function editOrigin(
  engine: Engine,
  origin: StoredCheckpoint,
  { check, ...request }: EditRequest & Pick<Forking, 'check'>,
): Promise<{ readonly content: WriteContent; readonly copies: readonly string[] }> {
  const { state, copies, before } = await editState(engine, origin, request);
  await check?.(state);
  const encoded = engine.codec.encode(state, before);
  const { agentId, agentType, userId, status } = origin.checkpoint;
  const { author, reason } = request;
  const said: SaveOptions = { type: 'manual', trigger: 'edited', agentId, agentType, userId, status, author, reason };
  const described = describeCheckpoint(said, engine.codec);
  return { content: { described, encoded, chunks: encoded.chunks }, copies };
}

/** Makes another branch current. */
export async function switchBranch(engine: Engine, sessionId: string, branch: string): Promise<void> {
  const id = parseSessionId(sessionId);
  const name = parseName(branch, 'A branch name');
  for (let attempt = 1; ; attempt++) {
    try {
      await trySwitch(engine, id, name);
      break;
    } catch (error) {
      if (attempt === SWITCH_TRIES || !isRefused(error, 'moved')) throw error; // somebody saves there
    }
  }
  await engine.noteStanding(id);
}

/** Only while the branch is there: what `session()` opens must not be one that was deleted meanwhile. */
async function trySwitch(engine: Engine, sessionId: SessionId, branch: string): Promise<void> {
  const headId = await engine.headOf(sessionId, branch);
  if (headId === undefined)
    throw new NotFoundError(`Session "${sessionId}" has no branch "${branch}".`, { details: { sessionId, branch } });
  const isThere: RefChange = { kind: 'branch', name: branch, expect: headId, target: headId };
  await engine.storage.commit({ sessionId, refs: [isThere, makeCurrent(branch)] });
}

/** Removes a branch's name; its checkpoints stay until retention drops them. Whoever holds its lease is fenced off. */
export async function deleteBranch(engine: Engine, sessionId: string, branch: string): Promise<void> {
  const id = parseSessionId(sessionId);
  const name = parseName(branch, 'A branch name');
  const current = await engine.repository.readRef(id, CURRENT.kind, CURRENT.name);
  if ((current ?? DEFAULT_BRANCH) === name)
    throw new InvalidInputError(
      `Branch "${name}" is the current one of session "${id}". Switch to another branch first.`,
    );
  const isOther: RefChange = { ...CURRENT, expect: current ?? null, target: current ?? null };
  const leaseTarget = await engine.repository.readRef(id, 'lease', name);
  const end = leaseTarget === undefined ? [] : endLease(name, leaseTarget);
  await removeName(engine, { sessionId: id, kind: 'branch', name }, [isOther, ...end]);
}

/** Takes `deleteBranch` back: the branch goes on with what it recorded. */
export async function restoreBranch(engine: Engine, id: CheckpointId, branch: string): Promise<void> {
  const change = { kind: 'branch', name: branch, expect: null } as const;
  await addName(engine, await engine.open(id), change, [checkFree('tag', branch)]);
}

/** Names a checkpoint; tags do not move and protect what they name. */
export async function tag(engine: Engine, idOrPrefix: string, name: string): Promise<CheckpointId> {
  const checkpoint = await engine.open(idOrPrefix);
  const change = { kind: 'tag', name: parseRefName(name, 'A tag'), expect: null } as const;
  return addName(engine, checkpoint, change, [checkFree('branch', name)]);
}

/** Removes a tag. */
export async function untag(engine: Engine, sessionId: string, name: string): Promise<void> {
  await removeName(engine, { sessionId: parseSessionId(sessionId), kind: 'tag', name: parseName(name, 'A tag') });
}

/** The tags of a session, each with its checkpoint. */
export async function tags({ repository }: Engine, sessionId: string) {
  const refs = await repository.readRefs({ sessionId: parseSessionId(sessionId), kind: 'tag' });
  return refs.map(({ name, target }) => ({ name, checkpointId: target as CheckpointId }));
}

/** Protects a checkpoint from retention. */
export async function pin(engine: Engine, idOrPrefix: string): Promise<CheckpointId> {
  const checkpoint = await engine.open(idOrPrefix);
  return addName(engine, checkpoint, { kind: 'pin', name: checkpoint.id });
}

/** Takes the protection of `pin` away. */
export async function unpin(engine: Engine, idOrPrefix: string): Promise<void> {
  const { id, sessionId } = await engine.open(idOrPrefix);
  await removeName(engine, { sessionId, kind: 'pin', name: id });
}

/** Notes something about a checkpoint that retention goes by: its operation completed, or it was cleared. */
export async function mark(
  engine: Engine,
  idOrPrefix: string,
  { as, retention }: { readonly as: RetentionMark; readonly retention: MarkReader },
): Promise<void> {
  const checkpoint = await engine.open(idOrPrefix);
  const { id, type } = checkpoint;
  if (!retention.keepsUntil(as, type))
    throw new InvalidInputError(
      `Checkpoint ${id} is of type "${type}", and nothing keeps those until they are ${as}. Give one of a type that retention keeps until then.`,
      { details: { id, type, mark: as } },
    );
  await addName(engine, checkpoint, { kind: 'mark', name: `${as}:${id}` });
}

type RetentionMark = 'completed' | 'cleared';
type MarkReader = { keepsUntil(mark: RetentionMark, type: string): boolean };

async function addName(
  { storage }: Engine,
  { id, sessionId }: Checkpoint,
  ...[change, more = []]: [change: Omit<RefChange, 'target'>, more?: readonly RefChange[]]
): Promise<CheckpointId> {
  await storage.commit({ sessionId, requires: [id], refs: [{ ...change, target: id }, ...more] });
  return id;
}

async function removeName(
  { storage, repository }: Engine,
  { sessionId, kind, name }: Pick<Ref, 'sessionId' | 'kind' | 'name'>,
  more: readonly RefChange[] = [],
): Promise<void> {
  const target = await repository.readRef(sessionId, kind, name);
  if (target === undefined)
    throw new NotFoundError(`Session "${sessionId}" has no ${kind} "${name}".`, { details: { sessionId, kind, name } });
  await storage.commit({ sessionId, refs: [{ kind, name, expect: target, target: null }, ...more] });
}

/** In words, why a branch cannot have this name, if that is what went wrong. */
function nameError(error: unknown, sessionId: string, branch: string): unknown {
  if (!isRefused(error, 'moved') || error.details.kind !== 'log') return error;
  return new ConflictError(
    `Session "${sessionId}" had a branch "${branch}" that was deleted, and what it recorded is kept for those that came from it. Choose another name.`,
    { details: { sessionId, kind: 'log', name: branch } },
  );
}
