import type { EncodedState } from '../../core/codec/state-codec.ts';
import { withoutUndefined } from '../../core/defined.ts';
import { ConflictError, InvalidInputError, NotFoundError } from '../../core/errors.ts';
import { isObject, isRecord } from '../../core/options.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import { type CheckpointId, type GivenId, parseId, parseSessionId, type SessionId } from '../../core/record/id.ts';
import type { Engine } from '../engine/engine.ts';
import {
  createReport,
  findLeftOutSecrets,
  type LoadedState,
  loadState,
  type RestoreProblem,
  type RestoreReport,
} from '../engine/loading.ts';
import { DEFAULT_BRANCH } from '../engine/records.ts';
import type { StoredCheckpoint } from '../engine/repository.ts';
import type { SaveOptions } from '../engine/save-options.ts';
import type { SessionOpener } from '../write/session-opener.ts';
import type { SessionWriter } from '../write/session-writer.ts';
import {
  type AgentFactory,
  COMPARES_CODE,
  checkFields,
  checkMade,
  isSelfSaving,
  readOwnSave,
  stateOf,
} from './agent.ts';
import { type AgentIdentity, describeAgent, identifyAgent, parseInstances } from './agent-description.ts';
import { liveState, loadInto } from './agent-loading.ts';
import { AgentSessions, type Assignment, checkOwner, differ } from './agent-sessions.ts';
import { captureAgent } from './capture-agent.ts';

/** Where a state is put on restore; without either, the checkpoint's agent type is looked up. */
export type RestoreOptions<Agent extends object = object> = {
  /** A live agent that takes the state over. */
  readonly into?: Agent | undefined;
  readonly factory?: AgentFactory<Agent> | undefined;
  /** The class that the checkpoint's registered agent type makes; another one is refused. */
  readonly as?: (abstract new (...args: never[]) => Agent) | undefined;
  /** Takes the state of another agent or class, too. The agent stays who it is, and its saves go to a session of its own. */
  readonly allowOther?: boolean | undefined;
  /**
   * If the code differs from the checkpoint, or something cannot be put back: `warn` (default) puts back what it can and names the rest in
   * the report, `fail` refuses and leaves the agent as it was, `accept` leaves what differs as the code says now.
   */
  readonly onDifference?: OnDifference | undefined;
};

/** What is done about differences between the code and a checkpoint. */
export type OnDifference = 'fail' | 'warn' | 'accept';

/** A checkpoint that was read and checked, and the agent that is to take its state, if it goes into one. */
export type PreparedRestore = {
  readonly checkpoint: Checkpoint;
  readonly loaded: LoadedState;
  readonly agent: object | undefined;
  /** Where the saves of an agent go that takes the state of another one. */
  readonly elsewhere?: Assignment;
  readonly onDifference?: OnDifference | undefined;
};

/** Whoever saves one of these twice would begin another session each time: a frozen state is another object next time, a number none. */
const UNNAMED =
  'A state that is frozen, or no object, does not say which session it belongs to. Use manager.session(id), or save(state, { sessionId }).';

/** Saves and restores live objects, and remembers which session each belongs to. */
export class AgentSaving {
  readonly engine: Engine;
  readonly #sessions: SessionOpener;
  /** Agent types by the name their checkpoints carry. */
  readonly #factories: ReadonlyMap<string, AgentFactory | undefined>;
  readonly #agentSessions = new AgentSessions();
  readonly #reports = new WeakMap<object, RestoreReport>();
  /** Who an object was when it was saved or restored: the options of `save` may say so, and not the object. */
  readonly #identities = new WeakMap<object, AgentIdentity>();

  constructor(
    engine: Engine,
    sessions: SessionOpener,
    agents: { readonly [agentType: string]: AgentFactory | undefined } = {},
  ) {
    this.engine = engine;
    this.#sessions = sessions;
    this.#factories = new Map(Object.entries(agents));
  }

  /** Saves an agent or a state, on top of what was saved of it before. Resolves when the checkpoint is durable. */
  async save(
    agentOrState: unknown,
    options: SaveOptions & { readonly sessionId?: string | undefined },
  ): Promise<CheckpointId> {
    if (isSelfSaving(agentOrState)) {
      const own = readOwnSave(agentOrState, options);
      return own.session.save(own.state, own.options);
    }
    const { sessionId, ...said } = options;
    const described: SaveOptions = { ...said, ...describeAgent(agentOrState, said, this.engine.codec) };
    if (!isObject(agentOrState)) {
      const place = this.#toSessionId(agentOrState, sessionId ?? toText(described.agentId));
      return (await this.#sessions.shared(place)).save(agentOrState, described);
    }
    return this.#saveObject(agentOrState, this.#assign(agentOrState, sessionId, described), described);
  }

  async #saveObject(agent: object, assignment: Assignment, described: SaveOptions): Promise<CheckpointId> {
    const whole: SaveOptions = { ...assignment.defaults, ...described };
    const identity = { agentId: toText(whole.agentId), agentType: whole.agentType };
    let store: (session: SessionWriter) => Promise<CheckpointId>;
    try {
      store = this.#read(agent, assignment, whole);
    } catch (error) {
      const branch = this.#agentSessions.openSession(agent)?.branch ?? DEFAULT_BRANCH;
      await this.engine.events.emit('save_failed', error, { sessionId: assignment.sessionId, branch });
      throw error;
    }
    if (whole.after === undefined) this.#identities.set(agent, identity); // else it may come to nothing
    const id = await this.#agentSessions.save(agent, store);
    this.#identities.set(agent, identity);
    return id;
  }

  /** Reads a state, and encodes it if its session is not open yet: the caller may go on changing it. Returns what stores it. */
  #read(agent: object, { before }: Assignment, whole: SaveOptions): (session: SessionWriter) => Promise<CheckpointId> {
    const { codec } = this.engine;
    const state = stateOf(agent, codec);
    if (this.#agentSessions.openSession(agent) !== undefined) return (session) => session.save(state, whole);
    const encoded = this.#agentSessions.capture(agent, (known) => codec.encode(state, known));
    return (session) =>
      session.saveEncoded(state, before === undefined ? encoded : this.#complete(state, encoded, session), whole);
  }

  /** Whether an object was saved or restored here: it goes on from its session, and not beside it. */
  knows(agent: object): boolean {
    return isSelfSaving(agent) || this.#identities.has(agent) || this.#reports.has(agent);
  }

  /** What a session that begins needs: an encoded state may lack the chunks of one it was restored from, deleted since with its session. */
  #complete(state: unknown, encoded: EncodedState, { id, mayBegin }: SessionWriter): EncodedState {
    if (!mayBegin) return encoded;
    const whole = this.engine.codec.encode(state);
    if (whole.root.digest === encoded.root.digest) return whole;
    throw new ConflictError(`Session "${id}" was deleted, and the state changed while it began anew. Save it again.`);
  }

  /** Where an object's saves go: where the caller says now, where they went before, or to a session of its own. */
  #assign(agent: object, sessionId: string | undefined, described: SaveOptions): Assignment {
    const { agentId, agentType } = described;
    const known = this.#agentSessions.get(agent);
    const isAsked = known?.isById !== true && sessionId === known?.sessionId;
    if (known !== undefined && (sessionId === undefined || isAsked)) return known;
    const id = this.#toSessionId(agent, sessionId ?? toText(agentId));
    const open = async (): Promise<SessionWriter> => {
      const session = await this.#sessions.shared(id);
      if (isById) checkOwner(session, described);
      return session;
    };
    const isById = sessionId === undefined;
    const assignment = { sessionId: id, open, isById, isAlone: isById && agentType !== undefined };
    this.#agentSessions.assign(agent, assignment);
    return assignment;
  }

  #toSessionId(saved: unknown, name: string | undefined): SessionId {
    if (name === undefined && Object.isFrozen(saved)) throw new InvalidInputError(UNNAMED);
    return parseSessionId(name ?? `ses_${this.engine.ports.nextId().slice(4)}`);
  }

  /**
   * Brings a checkpoint back: into a live agent, a new one from a factory or a registered type, or, if it was saved
   * from plain data, as that data. Saving it afterwards goes on from there, in a new branch if history had
   * moved on; that branch is current from then on.
   */
  async restore(stored: StoredCheckpoint, options: RestoreOptions): Promise<unknown> {
    const { checkpoint } = stored;
    return this.engine.trace({ kind: 'restore', sessionId: checkpoint.sessionId }, async (tell) => {
      tell({ checkpoint });
      const prepared = await this.prepare(stored, options);
      return (await this.finish(prepared, await this.#loadOrLeave(prepared, options.into))).restored;
    });
  }

  /** Puts the state into the agent; a live one that refuses differences is left as it was. */
  async #loadOrLeave(prepared: PreparedRestore, live: object | undefined): Promise<readonly RestoreProblem[]> {
    if (live === undefined || prepared.onDifference !== 'fail') return this.load(prepared);
    const undo = captureAgent(live, this.engine.plainCodec);
    try {
      return await this.load(prepared);
    } catch (error) {
      await undo();
      throw error;
    }
  }

  /** The first part of a restore: everything that can fail before an agent is touched. */
  async prepare(stored: StoredCheckpoint, options: RestoreOptions): Promise<PreparedRestore> {
    const { checkpoint } = stored;
    if (options.into !== undefined && options.factory !== undefined)
      throw new InvalidInputError('A state goes into a live agent or into one from a factory: pass into or factory.');
    const loaded = await loadState(this.engine, stored);
    const agent = this.#createAgent(checkpoint, options);
    checkClass(checkpoint, agent, options.as);
    const prepared = { checkpoint, loaded, agent, onDifference: options.onDifference };
    if (agent !== undefined) checkFields(agent, loaded.state);
    if (agent === undefined || !this.#isOther(prepared, agent, options)) return prepared;
    if (options.allowOther !== true) throw otherAgentError(checkpoint, ownerOf(prepared), this.#identify(agent));
    return { ...prepared, elsewhere: this.#elsewhere(checkpoint, agent) };
  }

  #identify(agent: object): AgentIdentity {
    const found = identifyAgent(agent, this.engine.codec);
    const known = this.#identities.get(agent);
    return { agentId: known?.agentId ?? found.agentId, agentType: known?.agentType ?? found.agentType };
  }

  /** An agent that is made for a restore has no id of its own yet, and one that is registered for a type is meant for it. */
  #isOther(prepared: PreparedRestore, agent: object, { into, factory }: RestoreOptions): boolean {
    const [{ agentId, agentType = PLAIN }, owner] = [this.#identify(agent), ownerOf(prepared)];
    const isOfOtherType = (into ?? factory) !== undefined && differ(agentType, owner.agentType);
    return isOfOtherType || (into !== undefined && differ(agentId, owner.agentId));
  }

  /** The session of an agent that takes the state of another one: its own as before, by its id, or a new one. */
  #elsewhere({ sessionId }: Checkpoint, agent: object): Assignment {
    const names = [this.#agentSessions.get(agent)?.sessionId, this.#identify(agent).agentId];
    const id = this.#toSessionId(
      {},
      names.find((name) => name !== undefined && name !== sessionId),
    );
    return { sessionId: id, open: () => this.#sessions.shared(id) };
  }

  /** The part of a restore that touches the agent; returns what could not be put back. */
  async load(prepared: PreparedRestore): Promise<readonly RestoreProblem[]> {
    const problems = await this.#put(prepared);
    if (prepared.onDifference === 'fail' && problems.length > 0) throw differenceError(prepared.checkpoint, problems);
    return problems;
  }

  async #put(prepared: PreparedRestore): Promise<readonly RestoreProblem[]> {
    const { checkpoint, loaded, agent, elsewhere, onDifference } = prepared;
    if (agent === undefined) return [];
    const loading = {
      codec: this.engine.codec,
      isNew: this.#agentSessions.get(agent) === undefined,
      instances: parseInstances(checkpoint.fingerprint),
      isCodeKept: onDifference === 'accept',
    };
    if (elsewhere === undefined) return loadInto(agent, loaded.state, loading);
    const identity = this.#identify(agent);
    const owner = ownerOf(prepared);
    const keep = differ(identity.agentId, owner.agentId) ? ['id', 'agentId'] : [];
    const problem = `The state is that of ${describe(owner)}; it was put into ${describe(identity)}, which stays who it is.`;
    const state = COMPARES_CODE in agent && keep.length > 0 ? withName(loaded.state, agent) : loaded.state;
    return [{ path: '$', problem }, ...(await loadInto(agent, state, { ...loading, keep }))];
  }

  /** The last part, once the state is in the agent: remembers where its saves go on, and tells. */
  async finish(
    { checkpoint, loaded, agent, elsewhere }: PreparedRestore,
    problems: readonly RestoreProblem[],
  ): Promise<{ readonly restored: unknown; readonly report: RestoreReport }> {
    const { state, encoded, mayHoldSecrets, migratedThrough } = loaded;
    const restored = agent ?? state;
    const leftOut = mayHoldSecrets ? findLeftOutSecrets(state, agent && liveState(agent)) : [];
    const report = createReport(checkpoint.id, [...leftOut, ...problems], migratedThrough);
    if (typeof restored === 'object' && restored !== null) {
      this.#reports.set(restored, report);
      const open = () => this.#sessions.resumeAt(checkpoint);
      const { sessionId, agentId, agentType, userId } = checkpoint;
      const defaults = withoutUndefined({ agentId, userId }) as SaveOptions;
      this.#agentSessions.assign(restored, elsewhere ?? { sessionId, open, before: encoded, defaults });
      if (elsewhere === undefined) this.#identities.set(restored, { agentId, agentType });
    }
    await this.engine.events.emit('checkpoint_restored', checkpoint, restored, report);
    return { restored, report };
  }

  #createAgent(checkpoint: Checkpoint, { into, factory }: RestoreOptions): object | undefined {
    const { id, agentType } = checkpoint;
    if (isSelfSaving(into))
      throw new InvalidInputError(
        `Checkpoint ${id} cannot be restored into what is saved in a session of its own. Rewind a Session; stop an agent loop, and open it again with restoreFrom.`,
      );
    if (into !== undefined) return into;
    if (factory !== undefined) return checkMade(factory(checkpoint), 'The factory');
    if (agentType === undefined) return undefined;
    const registered = this.#factories.get(agentType);
    if (registered !== undefined) return checkMade(registered(checkpoint), `The factory of agent type "${agentType}"`);
    const known = [...this.#factories.keys()].sort().join(', ') || 'none';
    throw new NotFoundError(
      `Checkpoint ${id} is of agent type "${agentType}", which is not registered (registered: ${known}). Register it, or pass into or factory.`,
      { details: { agentType } },
    );
  }

  /** What the restore of this agent could not put back. */
  reportOf(agent: object): RestoreReport | undefined {
    return this.#reports.get(agent);
  }
}

function differenceError({ id }: Checkpoint, problems: readonly RestoreProblem[]): InvalidInputError {
  const found = problems.map(({ path, problem }) => `${path}: ${problem}`).join(' ');
  return new InvalidInputError(
    `Checkpoint ${id} was not restored, and the agent is as it was: ${found} Restore with onDifference "warn", as the checkpoint says, or "accept", as the code says now.`,
    { details: { option: 'onDifference', id, problems } },
  );
}

function toText(agentId: GivenId | undefined): string | undefined {
  return agentId === undefined ? undefined : parseId(agentId, 'agentId');
}

function describe({ agentId, agentType }: AgentIdentity): string {
  const name = agentId === undefined ? 'an agent without an id' : `agent "${agentId}"`;
  return agentType === undefined ? name : `${name} of type ${agentType}`;
}

function checkClass({ id, agentType = PLAIN }: Checkpoint, agent: object | undefined, as: RestoreOptions['as']): void {
  if (as === undefined || agent instanceof as) return;
  throw new InvalidInputError(
    `Checkpoint ${id} is of ${agentType}, and ${as.name} was asked for with "as". Register ${as.name} in agents for that type, or pass into or factory.`,
    { details: { id, agentType } },
  );
}

/** What plain data is in the place of a class. */
const PLAIN = 'plain data';

/** Whose state a checkpoint holds; that of an agent of a team is known by its name. */
function ownerOf({ checkpoint, loaded: { state }, agent }: PreparedRestore): AgentIdentity {
  const isNamed = agent !== undefined && COMPARES_CODE in agent && isRecord(state) && typeof state.name === 'string';
  const { agentId = isNamed ? String(state.name) : undefined, agentType } = checkpoint;
  return { agentId, agentType };
}

function withName(state: unknown, agent: object): unknown {
  return isRecord(state) ? { ...state, name: Reflect.get(agent, 'name') } : state;
}

function otherAgentError(checkpoint: Checkpoint, owner: AgentIdentity, identity: AgentIdentity): InvalidInputError {
  return new InvalidInputError(
    `Checkpoint ${checkpoint.id} is of ${describe(owner)}, and it was to be put into ${describe(identity)}. Restore it into that agent, or pass allowOther: true to take over the state of another one; saves then go to a session of its own.`,
    { details: { id: checkpoint.id, agentId: checkpoint.agentId, agentType: checkpoint.agentType } },
  );
}
