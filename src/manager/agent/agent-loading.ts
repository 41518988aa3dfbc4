import type { StateCodec } from '../../core/codec/state-codec.ts';
import { InvalidInputError } from '../../core/errors.ts';
import { isRecord } from '../../core/options.ts';
import { formatPath } from '../../core/path.ts';
import { SecretRef } from '../../core/value/secret-ref.ts';
import type { RestoreProblem } from '../engine/restore-report.ts';
import { COMPARES_CODE, type CodeComparing, hasMethod, isHandle, type StatefulAgent, stateOf } from './agent.ts';

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
  const changed = comparesCode(agent) ? agent[COMPARES_CODE](state) : [];
  if (hasMethod(agent, 'loadState'))
    return [...changed, ...(await loadByItself(agent as StatefulAgent, state, loading.codec))];
  if (!isRecord(state)) {
    throw new InvalidInputError(
      'Only a state made of named fields can be put into an agent without a loadState method.',
    );
  }
  const { codec, ...rest } = loading;
  const own = stateOf(agent, codec);
  return putFields(agent, state, { ...rest, own, isSame: (a, b) => isSame(a, b, codec) });
}

/** How fields are put into an agent: what it has now, and when two values are the same. */
export type Putting = Omit<Loading, 'codec'> & {
  readonly own: unknown;
  readonly isSame: (one: unknown, other: unknown) => boolean;
};

/** Puts fields into an agent; returns what could not be put back, and what the agent has from elsewhere. */
export function putFields(agent: object, saved: Readonly<Record<string, unknown>>, putting: Putting): RestoreProblem[] {
  const { keep = [], isNew, own } = putting;
  const kept = keepOwn(own, saved, { path: [], isNew });
  const set = Object.entries(saved).filter(([key]) => !keep.includes(key));
  return [
    ...kept,
    ...set.flatMap((field) => setField(agent, field)),
    ...set.flatMap((field) => checkComputed(agent, field, putting)),
  ];
}

function comparesCode(agent: object): agent is CodeComparing {
  return COMPARES_CODE in agent;
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

type Field = readonly [key: string, value: unknown];

function setField(agent: object, [key, value]: Field): RestoreProblem[] {
  if (value instanceof SecretRef) return []; // reported with all left-out secrets; the agent keeps what it has
  if (value === undefined && isHandle(Reflect.get(agent, key))) return [];
  const problem = assign(agent, [key, value]);
  return problem === undefined ? [] : [{ path: formatPath([key]), problem }];
}

function assign(agent: object, [key, value]: Field): string | undefined {
  switch (kindOf(agent, key)) {
    case 'computed':
      return undefined;
    case 'method':
      return 'The agent has a method of this name, so the saved value was left out.';
    case 'setter':
      return assignBySetter(agent, [key, value]);
    case 'field':
      return Reflect.defineProperty(agent, key, { value, writable: true, enumerable: true, configurable: true })
        ? undefined
        : 'The agent does not let this field be set.';
  }
}

function assignBySetter(agent: object, [key, value]: Field): string | undefined {
  try {
    Reflect.set(agent, key, value);
    return undefined;
  } catch (error) {
    return `The agent refuses the saved value: ${error instanceof Error ? error.message : String(error)}`;
  }
}

/** What an agent computes from its other fields is right if it comes out as it was saved. */
function checkComputed(agent: object, [key, value]: Field, { isSame }: Putting): RestoreProblem[] {
  if (kindOf(agent, key) !== 'computed' || isSame(Reflect.get(agent, key), value)) return [];
  const problem = 'The agent computes this field, and now to another value than was saved.';
  return [{ path: formatPath([key]), problem }];
}

/** What an assignment would meet. Data of the agent's own is not met, but replaced. */
function kindOf(agent: object, key: string): 'field' | 'setter' | 'computed' | 'method' {
  for (let at: object | null = agent; at !== null && at !== Object.prototype; at = Object.getPrototypeOf(at)) {
    const found = Reflect.getOwnPropertyDescriptor(at, key);
    if (found?.set !== undefined) return 'setter';
    if (found?.get !== undefined) return 'computed';
    if (found !== undefined) return at !== agent && typeof found.value === 'function' ? 'method' : 'field';
  }
  return 'field';
}
