import type { StateCodec } from '../../core/codec/state-codec.ts';
import { InvalidInputError, messageOf } from '../../core/errors.ts';
import { describeValue, isRecord } from '../../core/options.ts';
import { formatPath } from '../../core/path.ts';
import { findLeftOutSecrets, type RestoreProblem } from '../engine/loading.ts';
import {
  COMPARES_CODE,
  type CodeComparing,
  type ComparedState,
  hasMethod,
  type StatefulAgent,
  stateOf,
} from './agent.ts';
import { changedField, findChanged, keptField } from './field-kinds.ts';
import { putFields } from './put-fields.ts';

/** How a state is put into an agent. */
export type Loading = {
  readonly codec: StateCodec;
  /** The agent was made for this restore, or never saved: what is in its fields is what its code gives it. */
  readonly isNew: boolean;
  /** Fields that stay the agent's own. */
  readonly keep?: readonly string[];
  /** Fields that held instances of classes when they were saved. */
  readonly instances?: readonly string[];
  /** What the code lacks, or has otherwise, is left as the code says. */
  readonly isCodeKept?: boolean;
};

/** Puts a state into an agent; returns what could not be put back, and what the agent has from elsewhere. */
export async function loadInto(agent: object, state: unknown, loading: Loading): Promise<readonly RestoreProblem[]> {
  if (!hasMethod(agent, 'loadState')) return putInto(agent, state as Fields, loading); // as checkFields found
  const { problems, taken } = comparesCode(agent)
    ? agent[COMPARES_CODE](state, loading.isCodeKept === true)
    : findChanges(agent, state, loading);
  const known = new Set(problems.map(({ path }) => path));
  const found = await loadByItself(agent as StatefulAgent, taken, loading.codec);
  return [...problems, ...found.filter(({ path }) => !known.has(path))];
}

/** What an agent that was just made has of another kind than its checkpoint; what becomes of it is up to its loadState. */
function findChanges(agent: object, state: unknown, { isNew }: Loading): ComparedState {
  const own = isNew && hasMethod(agent, 'saveState') ? saveAgain(agent as StatefulAgent) : undefined;
  const changed = isRecord(own) && isRecord(state) ? findChanged(state, own) : [];
  return { problems: changed.map((one) => changedField(one, false)), taken: state };
}

/** Sets the fields of an agent, and asks one with `saveState` how it is then: it may keep its state elsewhere. */
function putInto(agent: object, state: Fields, { codec, ...rest }: Loading): RestoreProblem[] {
  const own = stateOf(agent, codec);
  const putting = { ...rest, own, isSame: (a: unknown, b: unknown) => isSame(a, b, codec) };
  if (!hasMethod(agent, 'saveState')) return putFields(agent, state, putting);
  const { keep = [] } = rest;
  const left = [...findLeftOutSecrets(state), ...keep.map((key) => ({ path: formatPath([key]) }))];
  const saved = digestsOf(state, codec); // before objects of the agent's own take places in it
  const problems = putFields(agent, state, { ...putting, isDescribed: true });
  const fields = new Set([...saved.keys()].map((key) => formatPath([key])));
  const isLost = ({ path, kind }: RestoreProblem): boolean =>
    kind !== undefined && rest.isCodeKept !== true && fields.has(path);
  const known = [...left, ...problems.filter((problem) => !isLost(problem))].map(({ path }) => path);
  const found = compareAgain(agent as StatefulAgent, saved, codec).filter(
    ({ path }) => !known.some((one) => one.startsWith(path)),
  );
  return [...problems.filter(({ path }) => !found.some((other) => other.path === path)), ...found];
}

function compareAgain(agent: StatefulAgent, saved: Digests, codec: StateCodec): RestoreProblem[] {
  try {
    return compareDigests(saved, digestsOf(agent.saveState(), codec));
  } catch (error) {
    const reason = messageOf(error);
    return [{ path: '$', problem: `saveState fails once the fields are set (${reason}). Give the agent a loadState.` }];
  }
}

function comparesCode(agent: object): agent is CodeComparing {
  return COMPARES_CODE in agent;
}

async function loadByItself(
  agent: StatefulAgent,
  state: unknown,
  codec: StateCodec,
): Promise<readonly RestoreProblem[]> {
  const said = await agent.loadState(state);
  const at = comparesCode(agent) && isRecord(state) ? `$.agents.${String(state.name)}` : '$';
  return judgeLoad(agent, { state, said, at }, (a, b) => isSame(a, b, codec));
}

/** What an agent was given, what its loadState returned, and where its state is. */
type Load = { readonly state: unknown; readonly said: unknown; readonly at: string };

/**
 * What was not put back: what loadState says. If it says nothing, or is of a class above the one that says what is saved, the agent is asked
 * for its state again: what differs was not put back.
 */
export function judgeLoad(
  agent: object,
  { state, said, at }: Load,
  same: (saved: unknown, loaded: unknown) => boolean,
): readonly RestoreProblem[] {
  const problems = parseProblems(said, agent);
  if (!hasMethod(agent, 'saveState') || (problems !== undefined && !savesMore(agent))) return problems ?? [];
  const known = (problems ?? []).map(({ path }) => path);
  const found = compareStates(state, saveAgain(agent as StatefulAgent), same).map((problem) => {
    return { ...problem, path: `${at}${problem.path.slice(1)}` };
  });
  return [...(problems ?? []), ...found.filter(({ path }) => !known.some((one) => one.startsWith(path)))];
}

/** What an agent has now, as its state says it. */
export function liveState(agent: object): unknown {
  return hasMethod(agent, 'saveState') ? saveAgain(agent as StatefulAgent) : agent;
}

function saveAgain(agent: StatefulAgent): unknown {
  try {
    return agent.saveState();
  } catch {
    return undefined; // which is not the state
  }
}

/** Whether saveState is of a class below the one that loadState is of, which does not know what was added. */
function savesMore(agent: object): boolean {
  for (let at: object | null = agent; at !== null; at = Object.getPrototypeOf(at)) {
    const loads = Object.hasOwn(at, 'loadState');
    if (loads || Object.hasOwn(at, 'saveState')) return !loads;
  }
  return false;
}

function parseProblems(said: unknown, agent: object): readonly RestoreProblem[] | undefined {
  if ((said ?? undefined) === undefined) return undefined;
  if (Array.isArray(said) && said.every(isProblem)) return said;
  throw new InvalidInputError(
    `loadState of ${describeValue(agent)} must return nothing, or a list of what could not be put back, each as { path, problem }; found ${describeValue(said)}.`,
  );
}

function isProblem(value: unknown): value is RestoreProblem {
  return isRecord(value) && typeof value.path === 'string' && typeof value.problem === 'string';
}

function compareStates(
  state: unknown,
  loaded: unknown,
  same: (saved: unknown, loaded: unknown) => boolean,
): RestoreProblem[] {
  if (!isRecord(state) || !isRecord(loaded))
    return same(state, loaded) ? [] : [{ path: '$', problem: 'loadState did not take the state over.' }];
  return [...new Set([...Object.keys(state), ...Object.keys(loaded)])].flatMap((key) => {
    if (!Object.hasOwn(state, key)) return [keptField([key])];
    if (!Object.hasOwn(loaded, key)) return [leftOut([key])];
    if (same(state[key], loaded[key])) return [];
    const left = findLeftOut(state[key], loaded[key], same);
    return left.length > 0 ? left.map((inner) => leftOut([key, inner])) : [notTaken(key, 'loadState')];
  });
}

/** The fields of a value that are not there any more, if that is all that is different. */
function findLeftOut(
  saved: unknown,
  loaded: unknown,
  same: (saved: unknown, loaded: unknown) => boolean,
): readonly string[] {
  if (!isRecord(saved) || !isRecord(loaded)) return [];
  const isKept = Object.entries(loaded).every(([key, value]) => Object.hasOwn(saved, key) && same(saved[key], value));
  return isKept ? Object.keys(saved).filter((key) => !Object.hasOwn(loaded, key)) : [];
}

/** The problem of a field that the code does not save any more. */
function leftOut(path: readonly string[]): RestoreProblem {
  const problem = `The checkpoint has ${describeValue(path.at(-1))}, which saveState does not return any more: the next checkpoint will not hold it.`;
  return { path: formatPath(path), problem };
}

function notTaken(key: string, by: string): RestoreProblem {
  const problem = `${by} did not take ${describeValue(key)} over as it was saved. Give the agent a loadState that does.`;
  return { path: formatPath([key]), problem };
}

type Fields = Readonly<Record<string, unknown>>;

/** The digest of each field; undefined for what cannot be saved. */
type Digests = ReadonlyMap<string, string | undefined>;

function digestsOf(state: unknown, codec: StateCodec): Digests {
  const fields = Object.entries(isRecord(state) ? state : {});
  return new Map(fields.map(([key, value]) => [key, digestOf(value, codec)]));
}

function compareDigests(saved: Digests, loaded: Digests): RestoreProblem[] {
  const keys = new Set([...saved.keys(), ...loaded.keys()]);
  return [...keys].flatMap((key) => {
    if (saved.get(key) === loaded.get(key) && saved.has(key) === loaded.has(key)) return [];
    if (!saved.has(key)) return [keptField([key])];
    return [loaded.has(key) ? notTaken(key, 'Setting the fields') : leftOut([key])];
  });
}

function isSame(a: unknown, b: unknown, codec: StateCodec): boolean {
  if (Object.is(a, b)) return true;
  const digest = digestOf(a, codec);
  return digest !== undefined && digest === digestOf(b, codec);
}

/** What cannot be saved was not saved, and is the same as nothing. */
function digestOf(value: unknown, codec: StateCodec): string | undefined {
  try {
    return codec.encode(value).root.digest;
  } catch {
    return undefined;
  }
}
