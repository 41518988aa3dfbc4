import { InvalidInputError } from '../core/errors.ts';
import { isRecord } from '../core/options.ts';
import { formatPath } from '../core/path.ts';
import { SecretRef } from '../core/secret-ref.ts';
import type { StateCodec } from '../core/state-codec.ts';
import { hasMethod, isHandle, type StatefulAgent, stateOf } from './agent.ts';
import type { RestoreProblem } from './restore-report.ts';

/** How a state is put into an agent. */
export type Loading = {
  readonly codec: StateCodec;
  /** The agent was made for this restore, or never saved: what is in its fields is what its code gives it. */
  readonly isNew: boolean;
  /** Fields that stay the agent's own. */
  readonly keep?: readonly string[];
};

const KEPT = 'The checkpoint does not have this field; the agent keeps its own value.';

/** Puts a state into an agent; returns what could not be put back, and what the agent has from elsewhere. */
export async function loadInto(agent: object, state: unknown, loading: Loading): Promise<readonly RestoreProblem[]> {
  if (hasMethod(agent, 'loadState')) return loadByItself(agent as StatefulAgent, state, loading.codec);
  if (!isRecord(state)) {
    throw new InvalidInputError(
      'Only a state made of named fields can be put into an agent without a loadState method.',
    );
  }
  const { keep = [], isNew } = loading;
  const kept = keepOwn(stateOf(agent, loading.codec), state, { path: [], isNew });
  const set = Object.entries(state).filter(([key]) => !keep.includes(key));
  return [
    ...kept,
    ...set.flatMap(([key, value]) => setField(agent, key, value)),
    ...set.flatMap(([key, value]) => checkComputed(agent, key, value, loading.codec)),
  ];
}

/** An agent that says nothing of how it went is asked for its state: what differs was not put back. */
async function loadByItself(
  agent: StatefulAgent,
  state: unknown,
  codec: StateCodec,
): Promise<readonly RestoreProblem[]> {
  const problems = await agent.loadState(state);
  if (problems !== undefined || !hasMethod(agent, 'saveState')) return problems ?? [];
  return compareStates(state, agent.saveState(), codec);
}

function compareStates(saved: unknown, loaded: unknown, codec: StateCodec): RestoreProblem[] {
  if (!isRecord(saved) || !isRecord(loaded)) {
    return isSame(saved, loaded, codec) ? [] : [{ path: '$', problem: 'loadState did not take the state over.' }];
  }
  const keys = new Set([...Object.keys(saved), ...Object.keys(loaded)]);
  return [...keys].flatMap((key) => {
    if (isSame(saved[key], loaded[key], codec)) return [];
    const problem = Object.hasOwn(saved, key) ? 'loadState did not take this field over as it was saved.' : KEPT;
    return [{ path: formatPath([key]), problem }];
  });
}

function isSame(a: unknown, b: unknown, codec: StateCodec): boolean {
  if (Object.is(a, b)) return true;
  try {
    return codec.encode(a).root.digest === codec.encode(b).root.digest;
  } catch {
    return false; // what cannot be saved was not saved
  }
}

/**
 * Names what an agent has and the checkpoint lacks. In the nested objects of a new agent, where the saved object takes the place of its
 * own, such fields are put into the saved one.
 */
function keepOwn(
  own: unknown,
  saved: Readonly<Record<string, unknown>>,
  { path, isNew }: { readonly path: readonly string[]; readonly isNew: boolean },
): RestoreProblem[] {
  return Object.entries(isRecord(own) ? own : {}).flatMap(([key, value]) => {
    const place = [...path, key];
    const inner = saved[key];
    if (Object.hasOwn(saved, key))
      return isNew && isPlain(value) && isPlain(inner) ? keepOwn(value, inner, { path: place, isNew }) : [];
    if (value === undefined || typeof value === 'function') return [];
    if (path.length > 0) Object.assign(saved, { [key]: value });
    return [{ path: formatPath(place), problem: KEPT }];
  });
}

function isPlain(value: unknown): value is Readonly<Record<string, unknown>> {
  return isRecord(value) && Object.getPrototypeOf(value) === Object.prototype;
}

function setField(agent: object, key: string, value: unknown): RestoreProblem[] {
  if (value instanceof SecretRef) return []; // reported with all left-out secrets; the agent keeps what it has
  if (value === undefined && isHandle(Reflect.get(agent, key))) return [];
  const path = formatPath([key]);
  const inherited = findProperty(agent, key);
  if (typeof inherited?.value === 'function')
    return [{ path, problem: 'The agent has a method of this name, so the saved value was left out.' }];
  if (inherited?.get !== undefined && inherited.set === undefined) return [];
  try {
    if (inherited?.set !== undefined) Reflect.set(agent, key, value);
    else if (!Reflect.defineProperty(agent, key, { value, writable: true, enumerable: true, configurable: true }))
      return [{ path, problem: 'The agent does not let this field be set.' }];
  } catch (error) {
    return [{ path, problem: `The agent refuses the saved value: ${error instanceof Error ? error.message : error}` }];
  }
  return [];
}

/** What an agent computes from its other fields is right if it comes out as it was saved. */
function checkComputed(agent: object, key: string, value: unknown, codec: StateCodec): RestoreProblem[] {
  const { get, set } = findProperty(agent, key) ?? {};
  if (get === undefined || set !== undefined || isSame(Reflect.get(agent, key), value, codec)) return [];
  return [
    { path: formatPath([key]), problem: 'The agent computes this field, and now to another value than was saved.' },
  ];
}

/** What an assignment would meet: accessors, and methods of the class. Fields of the agent's own are not met, but replaced. */
function findProperty(agent: object, key: string): PropertyDescriptor | undefined {
  for (let at: object | null = agent; at !== null && at !== Object.prototype; at = Object.getPrototypeOf(at)) {
    const found = Reflect.getOwnPropertyDescriptor(at, key);
    if (found !== undefined) return at === agent && 'value' in found ? undefined : found;
  }
  return undefined;
}
