import { types } from 'node:util';
import type { StateCodec } from '../../core/codec/state-codec.ts';
import { InvalidInputError, messageOf } from '../../core/errors.ts';
import { describeValue, isRecord } from '../../core/options.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { CheckpointId, SessionId } from '../../core/record/id.ts';
import type { RestoreProblem } from '../engine/loading.ts';
import type { SaveOptions } from '../engine/save-options.ts';

/** What an agent may implement to say itself what its state is. */
export interface StatefulAgent {
  /** Returns everything to be saved; called at the moment of the save. */
  saveState(): unknown;
  /** Takes a saved state over and returns what could not be put back. If it returns nothing, `saveState` is compared with the state. */
  loadState(state: unknown): undefined | readonly RestoreProblem[] | Promise<undefined | readonly RestoreProblem[]>;
}

/** The method of an agent that says in what its code differs from a state that it is about to take over. */
export const COMPARES_CODE: unique symbol = Symbol.for('savestate.comparesCode');

/** An agent that knows what of its state comes from the code. */
export interface CodeComparing {
  [COMPARES_CODE](state: unknown, isCodeKept: boolean): ComparedState;
}

/** In what a state differs from the code, and what is taken over of it: as it is, or with what the code says in its place. */
export type ComparedState = { readonly problems: readonly RestoreProblem[]; readonly taken: unknown };

/** Makes an empty agent that a checkpoint is then restored into. Code cannot be saved, so it is looked up by name. */
export type AgentFactory<Agent extends object = object> = (checkpoint: Checkpoint) => Agent;

/** What a factory made, or throws if it is no agent: a state would be put into nothing. */
export function checkMade(made: unknown, what: string): object {
  if (isRecord(made) && hasMethod(made, 'then'))
    throw new InvalidInputError(`${what} must not be async: it must return an agent, and found was a promise.`);
  if (isRecord(made)) return made;
  throw new InvalidInputError(`${what} must return an agent; found ${describeValue(made)}.`);
}

/** Throws if a state cannot be put into an agent field by field: what either of them holds is in no field. */
export function checkFields(agent: object, state: unknown): void {
  if (hasMethod(agent, 'loadState')) return;
  if (VALUES.some((isOne) => isOne(agent)))
    throw new InvalidInputError(
      `What a state is put into must be an agent; found ${describeValue(agent)}. load() returns the state.`,
    );
  if (!isRecord(state) || VALUES.some((isOne) => isOne(state)))
    throw new InvalidInputError(
      `Only a state made of named fields can be put into an agent without a loadState method; found ${describeValue(state)}. load() returns it.`,
    );
}

/** Whether this is an agent rather than a state: anything with `saveState`, or an instance of a class that is not itself a value. */
export function isAgent(value: unknown, codec: StateCodec): value is object {
  if (typeof value !== 'object' || value === null) return false;
  return hasMethod(value, 'saveState') || !codec.isValue(value);
}

/** The state of an agent, or the value itself if it is one already. */
export function stateOf(value: unknown, codec: StateCodec): unknown {
  if (isAgent(value, codec)) return hasMethod(value, 'saveState') ? savedBy(value as StatefulAgent) : fieldsOf(value);
  return isRecord(value) && Object.keys(value).some((name) => isHandle(readField(value, name)))
    ? publicFields(value)
    : value;
}

/** What an agent says its state is. A `return` that was forgotten would save nothing, and nobody would know. */
function savedBy(agent: StatefulAgent): unknown {
  const state = agent.saveState();
  const what = `saveState of the agent (${agent.constructor?.name || 'of no class'})`;
  if (types.isPromise(state)) {
    state.catch(() => undefined);
    throw new InvalidInputError(`${what} must not be async: a save reads the state at once. Await before you save.`);
  }
  if (state !== undefined) return state;
  throw new InvalidInputError(`${what} returned nothing: there is nothing to save. Return the state.`);
}

/** The fields of an instance. One without any would be saved as nothing, and nobody would know. */
function fieldsOf(agent: object): Record<string, unknown> {
  const fields = HOLDERS.some((isOne) => isOne(agent)) ? {} : publicFields(agent);
  if (Reflect.ownKeys(fields).length > 0) return fields;
  throw new InvalidInputError(
    `What is in the agent (${agent.constructor?.name || 'of no class'}) is in no field that can be read, and it has no saveState method: there is nothing to save. Give it saveState and loadState, or public fields.`,
  );
}

/** Kinds of objects whose content is in no field. */
const HOLDERS: readonly ((value: unknown) => boolean)[] = [
  Array.isArray,
  types.isMap,
  types.isSet,
  types.isDate,
  types.isRegExp,
  types.isPromise,
  types.isWeakMap,
  types.isWeakSet,
  types.isAnyArrayBuffer,
  types.isArrayBufferView,
  types.isBoxedPrimitive,
];

/** Kinds of objects that are not made of named fields. */
const VALUES = [...HOLDERS, types.isNativeError, (value: unknown) => value instanceof URL || value instanceof Error];

/** The fields of an object that can be part of a state. */
export function publicFields(agent: object): Record<string, unknown> {
  const fields: Record<PropertyKey, unknown> = {};
  for (const name of Reflect.ownKeys(agent)) {
    if (!Object.prototype.propertyIsEnumerable.call(agent, name)) continue;
    const value = readField(agent, name);
    if (!isHandle(value))
      Object.defineProperty(fields, name, { value, enumerable: true, writable: true, configurable: true });
  }
  return fields;
}

function readField(agent: object, name: PropertyKey): unknown {
  try {
    return Reflect.get(agent, name);
  } catch (cause) {
    throw new InvalidInputError(
      `$.${String(name)}: its getter threw: ${messageOf(cause)}. Mend it, or give the agent saveState and loadState.`,
      { details: { path: `$.${String(name)}` }, cause },
    );
  }
}

const handles = new WeakSet<object>();

/** Notes that an object, such as a manager, is never part of a state: agents may have it as a field. */
export function registerHandle(handle: object): void {
  handles.add(handle);
}

/** Whether a value is never part of a state. */
export function isHandle(value: unknown): boolean {
  return typeof value === 'object' && value !== null && handles.has(value);
}

/** Whether an object has a method of this name. */
export function hasMethod(value: object, name: string): boolean {
  return typeof Reflect.get(value, name) === 'function';
}

/** The method of an object that is saved in a session of its own, such as an agent loop or a Session: returns what to save, at once. */
export const SAVES_ITSELF: unique symbol = Symbol.for('savestate.savesItself');

/** Where an object is saved, its state as of now, and what its checkpoint says. */
export type OwnSave = { readonly session: SavingSession; readonly state: unknown; readonly options: SaveOptions };

/** What is saved to: a session that somebody holds. */
export type SavingSession = {
  readonly id: SessionId;
  save(state: unknown, options?: SaveOptions): Promise<CheckpointId>;
};

/** An object that is saved in a session of its own. */
export interface SelfSaving {
  [SAVES_ITSELF](): OwnSave;
}

/** Whether an object is saved in a session of its own. */
export function isSelfSaving(value: unknown): value is SelfSaving {
  return typeof value === 'object' && value !== null && SAVES_ITSELF in value;
}

/** What to save of an object that is saved in a session of its own; refuses another session. */
export function readOwnSave(
  agent: SelfSaving,
  { sessionId, ...said }: SaveOptions & { sessionId?: string | undefined },
): OwnSave {
  const { session, state, options } = agent[SAVES_ITSELF]();
  if (sessionId !== undefined && sessionId !== session.id)
    throw new InvalidInputError(
      `This is saved in session "${session.id}", so it cannot be saved in "${sessionId}". Leave sessionId out.`,
    );
  const metadata = { ...options.metadata, ...said.metadata };
  return { session, state, options: { ...options, ...said, ...(Object.keys(metadata).length > 0 && { metadata }) } };
}
