import { ConflictError, InvalidInputError, NotFoundError } from '../../core/errors.ts';
import { anything, callback, either, listOf, type OptionChecks, record } from '../../core/options.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import { type CheckpointId, name, parseName, parseSessionId, type SessionId } from '../../core/record/id.ts';
import type { RefChange, RefKind } from '../../storage/contract.ts';
import { checkRef } from '../../storage/ref.ts';
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

type Edited = { readonly content: WriteContent; readonly copies: readonly string[] };

/** How a new branch begins. */
type Beginning = {
  readonly parent: Checkpoint;
  readonly edited: Edited | undefined;
  /** A rewind makes it the current one. */
  readonly how: 'fork' | 'rewind';
  readonly writer: Writer;
};

const NAME_TRIES = 100;
const SWITCH_TRIES = 20;

/** What the options of a fork accept. */
export const FORK_CHECKS: OptionChecks<ForkOptions> = {
  branch: name,
  edit: either('a JSON Patch or a function', callback, listOf(record)),
  author: anything,
  reason: anything,
};

/** Makes branches, tags and pins. History is only ever added to. */
export class Branching {
  readonly #engine: Engine;

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  /** A new branch at a checkpoint; costs the same however long the history is. */
  async fork(idOrPrefix: string, options: Forking = {}): Promise<ForkedBranch> {
    const origin = await this.#engine.repository.open(idOrPrefix);
    return this.#fork(origin, options, 'fork');
  }

  /** A new branch at an ancestor of the head of a branch, by default the current one, made current: the next `session()` opens it. */
  async rewind(idOrPrefix: string, options: Forking = {}, branch?: string): Promise<ForkedBranch> {
    const origin = await this.#engine.repository.open(idOrPrefix);
    const { sessionId } = origin.checkpoint;
    await this.#checkAncestor(origin.checkpoint, branch ?? (await this.#engine.currentBranch(sessionId)));
    const head = await this.#fork(origin, options, 'rewind');
    await this.#engine.noteStanding(sessionId);
    return head;
  }

  async #checkAncestor({ id, sessionId }: Checkpoint, branch: string): Promise<void> {
    const headId = await this.#engine.repository.readRef(sessionId, 'branch', branch);
    if (headId === id) return;
    const head = headId === undefined ? undefined : (await this.#engine.repository.open(headId)).checkpoint;
    if (head !== undefined) for await (const entry of readPath(this.#engine.storage, head)) if (entry.id === id) return;
    throw new InvalidInputError(
      `Checkpoint ${id} is not an ancestor of branch "${branch}", so there is nothing to rewind. Use fork to branch off it.`,
      { details: { id, branch } },
    );
  }

  async #fork(origin: StoredCheckpoint, options: Forking, how: Beginning['how']): Promise<ForkedBranch> {
    const { checkpoint } = origin;
    const base = options.branch ?? `${how}-${checkpoint.sequence}`;
    const begin = async (writer: Writer): Promise<ForkedBranch> => {
      const edited =
        options.edit === undefined ? undefined : await this.#edit(origin, { ...options, edit: options.edit });
      for (let attempt = 1; ; attempt++) {
        const branch = parseRefName(attempt === 1 ? base : `${base}-${attempt}`, 'A branch name');
        try {
          return await this.#begin(branch, { parent: checkpoint, edited, how, writer });
        } catch (error) {
          const isTaken = isRefused(error, 'moved') && options.branch === undefined && attempt < NAME_TRIES;
          if (!isTaken) throw nameError(error, checkpoint.sessionId, branch);
        }
      }
    };
    const save = { sessionId: checkpoint.sessionId, branch: base };
    return this.#engine.write(begin, options.edit === undefined ? undefined : save);
  }

  /** Begins a branch at a checkpoint, or with an edited state on top of it. */
  async #begin(branch: string, { parent, edited, how, writer }: Beginning): Promise<ForkedBranch> {
    const { id, sessionId } = parent;
    const refs = [...checkNewBranch(branch), ...(how === 'rewind' ? [makeCurrent(branch)] : [])];
    if (edited !== undefined) {
      const place = { sessionId, branch, parent, expect: null, refs };
      const head = await writer.write(place, edited.content);
      return { sessionId, branch, headId: head.id, ...(edited.copies.length > 0 && { copies: edited.copies }) };
    }
    const begin: RefChange = { kind: 'branch', name: branch, expect: null, target: id };
    await this.#engine.storage.commit({ sessionId, requires: [id], refs: [begin, ...refs] });
    return { sessionId, branch, headId: id };
  }

  async #edit(origin: StoredCheckpoint, { check, ...request }: EditRequest & Pick<Forking, 'check'>): Promise<Edited> {
    const { state, copies, before } = await editState(this.#engine, origin, request);
    await check?.(state);
    const encoded = this.#engine.codec.encode(state, before);
    const { agentId, agentType, userId, status } = origin.checkpoint;
    const { author, reason } = request;
    const said: SaveOptions = { type: 'manual', trigger: 'edited', agentId, agentType, userId, status, author, reason };
    const described = describeCheckpoint(said, this.#engine.codec);
    return { content: { described, encoded, chunks: encoded.chunks }, copies };
  }

  /** Makes another branch current. */
  async switchBranch(sessionId: string, branch: string): Promise<void> {
    const id = parseSessionId(sessionId);
    const name = parseName(branch, 'A branch name');
    for (let attempt = 1; ; attempt++) {
      try {
        await this.#switch(id, name);
        break;
      } catch (error) {
        if (attempt === SWITCH_TRIES || !isRefused(error, 'moved')) throw error; // somebody saves there
      }
    }
    await this.#engine.noteStanding(id);
  }

  /** Only while the branch is there: what `session()` opens must not be one that was deleted meanwhile. */
  async #switch(sessionId: SessionId, branch: string): Promise<void> {
    const headId = await this.#engine.repository.readRef(sessionId, 'branch', branch);
    if (headId === undefined)
      throw new NotFoundError(`Session "${sessionId}" has no branch "${branch}".`, { details: { sessionId, branch } });
    const isThere: RefChange = { kind: 'branch', name: branch, expect: headId, target: headId };
    await this.#engine.storage.commit({ sessionId, refs: [isThere, makeCurrent(branch)] });
  }

  /** Removes a branch's name; its checkpoints stay until retention drops them. Whoever holds its lease is fenced off. */
  async deleteBranch(sessionId: string, branch: string): Promise<void> {
    const id = parseSessionId(sessionId);
    const name = parseName(branch, 'A branch name');
    const current = await this.#engine.repository.readRef(id, CURRENT.kind, CURRENT.name);
    if ((current ?? DEFAULT_BRANCH) === name) {
      throw new InvalidInputError(
        `Branch "${name}" is the current one of session "${id}". Switch to another branch first.`,
      );
    }
    const isOther: RefChange = { ...CURRENT, expect: current ?? null, target: current ?? null };
    const leaseTarget = await this.#engine.repository.readRef(id, 'lease', name);
    const end = leaseTarget === undefined ? [] : endLease(name, leaseTarget);
    await this.#removeRef(id, 'branch', name, [isOther, ...end]);
  }

  /** Names a checkpoint; tags do not move and protect what they name. */
  async tag(idOrPrefix: string, name: string): Promise<CheckpointId> {
    return this.#addRef(idOrPrefix, 'tag', () => parseRefName(name, 'A tag'), { more: [checkFree('branch', name)] });
  }

  async untag(sessionId: string, name: string): Promise<void> {
    await this.#removeRef(parseSessionId(sessionId), 'tag', parseName(name, 'A tag'));
  }

  async tags(sessionId: string): Promise<{ readonly name: string; readonly checkpointId: CheckpointId }[]> {
    const refs = await this.#engine.repository.readRefs({ sessionId: parseSessionId(sessionId), kind: 'tag' });
    return refs.map(checkRef).map(({ name, target }) => ({ name, checkpointId: target as CheckpointId }));
  }

  /** Protects a checkpoint from retention. */
  async pin(idOrPrefix: string): Promise<CheckpointId> {
    return this.#addRef(idOrPrefix, 'pin', (id) => id, { isIdempotent: true });
  }

  async unpin(idOrPrefix: string): Promise<void> {
    const { checkpoint } = await this.#engine.repository.open(idOrPrefix);
    await this.#removeRef(checkpoint.sessionId, 'pin', checkpoint.id);
  }

  /** Notes something about a checkpoint that retention goes by: its operation completed, or it was cleared. */
  async mark(
    idOrPrefix: string,
    mark: 'completed' | 'cleared',
    retention: { keepsUntil(mark: 'completed' | 'cleared', type: string): boolean },
  ): Promise<void> {
    const { checkpoint } = await this.#engine.repository.open(idOrPrefix);
    const { id, type } = checkpoint;
    if (!retention.keepsUntil(mark, type))
      throw new InvalidInputError(
        `Checkpoint ${id} is of type "${type}", and nothing keeps those until they are ${mark}. Give one of a type that retention keeps until then.`,
        { details: { id, type, mark } },
      );
    await this.#addRef(id, 'mark', () => `${mark}:${id}`, { isIdempotent: true });
  }

  async #addRef(
    idOrPrefix: string,
    kind: RefKind,
    ...[nameOf, { isIdempotent = false, more = [] } = {}]: [
      nameOf: (id: CheckpointId) => string,
      options?: { isIdempotent?: boolean; more?: readonly RefChange[] },
    ]
  ): Promise<CheckpointId> {
    const { checkpoint } = await this.#engine.repository.open(idOrPrefix);
    const { id, sessionId } = checkpoint;
    const change = { kind, name: nameOf(id), target: id, ...(!isIdempotent && { expect: null }) };
    await this.#engine.storage.commit({ sessionId, requires: [id], refs: [change, ...more] });
    return id;
  }

  async #removeRef(
    sessionId: SessionId,
    kind: RefKind,
    ...[name, more = []]: [name: string, more?: readonly RefChange[]]
  ): Promise<void> {
    const target = await this.#engine.repository.readRef(sessionId, kind, name);
    if (target === undefined)
      throw new NotFoundError(`Session "${sessionId}" has no ${kind} "${name}".`, {
        details: { sessionId, kind, name },
      });
    await this.#engine.storage.commit({ sessionId, refs: [{ kind, name, expect: target, target: null }, ...more] });
  }
}

/** In words, why a branch cannot have this name, if that is what went wrong. */
function nameError(error: unknown, sessionId: string, branch: string): unknown {
  if (!isRefused(error, 'moved') || error.details.kind !== 'log') return error;
  return new ConflictError(
    `Session "${sessionId}" had a branch "${branch}" that was deleted, and what it recorded is kept for those that came from it. Choose another name.`,
    { details: { sessionId, kind: 'log', name: branch } },
  );
}
