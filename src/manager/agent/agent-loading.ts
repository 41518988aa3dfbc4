import type { StateCodec } from '../../core/codec/state-codec.ts';
import { InvalidInputError, messageOf } from '../../core/errors.ts';
import { mapValues } from '../../core/map-values.ts';
import { describeValue, isRecord } from '../../core/options.ts';
import { formatPath } from '../../core/path.ts';
import { findLeftOutSecrets, type RestoreProblem } from '../engine/loading.ts';
import { COMPARES_CODE, type CodeComparing, hasMethod, type StatefulAgent, stateOf } from './agent.ts';
import { compareField, differenceAt, type Fields, notPutBack } from './field-kinds.ts';
import { type Putting, putFields } from './put-fields.ts';

/** How a state is put into an agent. */
export type Loading = Pick<Putting, 'isNew' | 'keep' | 'instances' | 'isCodeKept'> & { readonly codec: StateCodec };

type Same = (saved: unknown, live: unknown) => boolean;

/** Puts a state into an agent; returns what could not be put back, and what the agent has from elsewhere. */
export async function loadInto(agent: object, state: unknown, loading: Loading): Promise<readonly RestoreProblem[]> {
  if (!hasMethod(agent, 'loadState')) return putInto(agent, state as Fields, loading); // as checkFields found
  const isComparing = COMPARES_CODE in agent;
  const { problems, taken } = isComparing
    ? (agent as CodeComparing)[COMPARES_CODE](state, loading.isCodeKept === true)
    : { problems: findChanges(agent, state, loading), taken: state };
  const at = isComparing && isRecord(taken) ? `$.agents.${String(taken.name)}` : '$';
  const said = await (agent as StatefulAgent).loadState(taken);
  const found = judgeLoad(agent, { state: taken, said, at }, sameFor(loading.codec));
  return [...problems, ...found.filter(({ path }) => !problems.some((known) => known.path === path))];
}

/** What an agent that was just made has of another kind than its checkpoint; what becomes of it is up to its loadState. */
function findChanges(agent: object, state: unknown, { isNew }: Loading): RestoreProblem[] {
  const own = isNew && hasMethod(agent, 'saveState') ? liveState(agent) : undefined;
  if (!isRecord(own) || !isRecord(state)) return [];
  const found = Object.keys(state).flatMap((key) => compareField(key, state, own) ?? []);
  return found.filter(({ kind }) => kind === 'changed').map((one) => differenceAt([], one));
}

/** Sets the fields of an agent, and asks one with `saveState` how it is then: it may keep its state elsewhere. */
function putInto(agent: object, state: Fields, { codec, ...how }: Loading): RestoreProblem[] {
  const isDescribed = hasMethod(agent, 'saveState');
  const left = [...findLeftOutSecrets(state), ...(how.keep ?? []).map((key) => ({ path: formatPath([key]) }))];
  // Before objects of the agent's own take places in it.
  const saved = isDescribed ? mapValues(state, (value) => digestOf(value, codec)) : {};
  const problems = putFields(agent, state, { ...how, own: stateOf(agent, codec), isSame: sameFor(codec), isDescribed });
  if (!isDescribed) return problems;
  const found = askAgain(agent, saved, (digest, live) => digest === digestOf(live, codec));
  return [...problems, ...withoutKnown(found, [...left, ...problems])];
}

function withoutKnown(
  found: readonly RestoreProblem[],
  known: readonly Pick<RestoreProblem, 'path'>[],
): readonly RestoreProblem[] {
  return found.filter(({ path }) => !known.some((one) => one.path.startsWith(path)));
}

type Load = { readonly state: unknown; readonly said: unknown; readonly at: string };

/**
 * What was not put back: what loadState says. If it says nothing, or is of a class above the one that says what is saved, the agent is asked
 * for its state again: what differs was not put back.
 */
export function judgeLoad(agent: object, { state, said, at }: Load, same: Same): readonly RestoreProblem[] {
  const problems = parseProblems(said, agent);
  if (!hasMethod(agent, 'saveState') || (problems !== undefined && !savesMore(agent))) return problems ?? [];
  const found = askAgain(agent, state, same).map((one) => ({ ...one, path: `${at}${one.path.slice(1)}` }));
  return [...(problems ?? []), ...withoutKnown(found, problems ?? [])];
}

/** What an agent has now, as its state says it. */
export function liveState(agent: object): unknown {
  try {
    return hasMethod(agent, 'saveState') ? (agent as StatefulAgent).saveState() : agent;
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

const GONE = 'saveState does not return it any more, so the next checkpoint will not hold it';

/** What an agent would save otherwise now than it was saved. */
function askAgain(agent: object, saved: unknown, same: Same): RestoreProblem[] {
  let now: unknown;
  try {
    now = (agent as StatefulAgent).saveState();
  } catch (error) {
    return [notPutBack([], `saveState fails (${messageOf(error)})`)];
  }
  if (!isRecord(saved) || !isRecord(now)) return same(saved, now) ? [] : [notPutBack([])];
  const live = now;
  return [...new Set([...Object.keys(saved), ...Object.keys(live)])].flatMap((key) => {
    if (!Object.hasOwn(saved, key)) return [differenceAt([], { field: key, kind: 'added' })];
    if (!Object.hasOwn(live, key)) return [notPutBack([key], GONE)];
    if (same(saved[key], live[key])) return [];
    const gone = findGone(saved[key], live[key], same);
    return gone.length > 0 ? gone.map((inner) => notPutBack([key, inner], GONE)) : [notPutBack([key])];
  });
}

/** The fields of a value that are not there any more, if that is all that is different. */
function findGone(saved: unknown, live: unknown, same: Same): readonly string[] {
  if (!isRecord(saved) || !isRecord(live)) return [];
  const isKept = Object.entries(live).every(([key, value]) => Object.hasOwn(saved, key) && same(saved[key], value));
  return isKept ? Object.keys(saved).filter((key) => !Object.hasOwn(live, key)) : [];
}

function sameFor(codec: StateCodec): Same {
  return (saved, live) => {
    if (Object.is(saved, live)) return true;
    const digest = digestOf(saved, codec);
    return digest !== undefined && digest === digestOf(live, codec);
  };
}

/** What cannot be saved was not saved, and is the same as nothing. */
function digestOf(value: unknown, codec: StateCodec): string | undefined {
  try {
    return codec.encode(value).root.digest;
  } catch {
    return undefined;
  }
}
