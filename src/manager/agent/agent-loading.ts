import type { StateCodec } from '../../core/codec/state-codec.ts';
import { InvalidInputError } from '../../core/errors.ts';
import { isRecord } from '../../core/options.ts';
import { formatPath } from '../../core/path.ts';
import { findLeftOutSecrets, type RestoreProblem } from '../engine/restore-report.ts';
import { COMPARES_CODE, type CodeComparing, hasMethod, type StatefulAgent, stateOf } from './agent.ts';
import { KEPT, putFields } from './put-fields.ts';

/** How a state is put into an agent. */
export type Loading = {
  readonly codec: StateCodec;
  /** The agent was made for this restore, or never saved: what is in its fields is what its code gives it. */
  readonly isNew: boolean;
  /** Fields that stay the agent's own. */
  readonly keep?: readonly string[];
};

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
  return putInto(agent, state, loading);
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
  const known = [...left, ...problems].map(({ path }) => path);
  const found = compareAgain(agent as StatefulAgent, saved, codec);
  return [...problems, ...found.filter(({ path }) => !known.some((one) => one.startsWith(path)))];
}

function compareAgain(agent: StatefulAgent, saved: Digests, codec: StateCodec): RestoreProblem[] {
  try {
    return compareDigests(saved, digestsOf(agent.saveState(), codec), 'Setting the fields');
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    return [{ path: '$', problem: `saveState fails once the fields are set (${reason}). Give the agent a loadState.` }];
  }
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
  const loaded = agent.saveState();
  if (isRecord(state) && isRecord(loaded))
    return compareDigests(digestsOf(state, codec), digestsOf(loaded, codec), 'loadState');
  return isSame(state, loaded, codec) ? [] : [{ path: '$', problem: 'loadState did not take the state over.' }];
}

type Fields = Readonly<Record<string, unknown>>;

/** The digest of each field; undefined for what cannot be saved. */
type Digests = ReadonlyMap<string, string | undefined>;

function digestsOf(state: unknown, codec: StateCodec): Digests {
  const fields = Object.entries(isRecord(state) ? state : {});
  return new Map(fields.map(([key, value]) => [key, digestOf(value, codec)]));
}

function compareDigests(saved: Digests, loaded: Digests, by: string): RestoreProblem[] {
  const keys = new Set([...saved.keys(), ...loaded.keys()]);
  return [...keys].flatMap((key) => {
    if (saved.get(key) === loaded.get(key) && saved.has(key) === loaded.has(key)) return [];
    const problem = saved.has(key) ? `${by} did not take this field over as it was saved.` : KEPT;
    return [{ path: formatPath([key]), problem }];
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
