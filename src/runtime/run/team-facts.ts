import { isDeepStrictEqual } from 'node:util';
import { mapValues } from '../../core/map-values.ts';
import { describeValue, isRecord } from '../../core/options.ts';
import { formatPath } from '../../core/path.ts';
import { digestText } from '../../core/tree/chunk.ts';
import { compareKinds, type FieldDifference, type FieldKinds } from '../../manager/agent/field-kinds.ts';
import { madeFields } from '../agent/agent-fields.ts';
import type { AgentState } from '../agent/agent-state.ts';
import type { AgentStates } from '../agent/load-agents.ts';
import type { StandardAgent } from '../agent/standard-agent.ts';
import { describeCode } from '../code/code-limits.ts';
import type { AgentTeam } from './agent-team.ts';
import type { Difference } from './differences.ts';

type Facts = Readonly<Record<string, string>>;

type AgentFacts = {
  readonly class: string;
  readonly prompt: string;
  readonly model: string;
  readonly tools: Facts;
  readonly settings: Facts;
  /** Which code it may run. */
  readonly code: Facts;
  /** What its class gives it in each field; absent if nobody knows. */
  readonly fields?: FieldKinds;
};

/** What the code says of a team, each thing by its value or a short digest. */
export type TeamFacts = {
  readonly agents: Readonly<Record<string, AgentFacts>>;
  /** Absent if nobody knows. */
  readonly settings?: Facts;
};

/** What a checkpoint holds as its fingerprint: the code that the team ran with, and its prompts as they were, overrides included. */
export type TeamFingerprint = TeamFacts & { readonly kind: 'team'; readonly prompts: Facts };

/** What of an agent comes from the code; the rest is its life. */
const CODE_FIELDS = [
  'systemMessage',
  'description',
  'llmConfig',
  'modelId',
  'tools',
  'humanInputMode',
  'maxConsecutiveAutoReplies',
  'maxToolRounds',
  'defaultReply',
  'runtime',
  'codeExecution',
] as const satisfies readonly (keyof AgentState)[];

const AGENT_SETTINGS = CODE_FIELDS.slice(5, -1);
const DIGEST_CHARS = 16;

/** The facts of a team, as a state has it, and its settings. */
export function factsOf(team: AgentTeam, { agents }: Pick<AgentStates, 'agents'>, settings: object): TeamFacts {
  return {
    agents: mapValues(agents, (state, name) => ({ ...factsOfAgent(state), ...fieldsOf(team.agent(name)) })),
    settings: factsOfSettings(Object.entries(settings)),
  };
}

function fieldsOf(agent: StandardAgent | undefined): Pick<AgentFacts, 'fields'> {
  return agent === undefined ? {} : { fields: madeFields(agent) };
}

/** A team that was rebuilt, before and after its state was put in. */
type RebuiltTeam = { readonly team: AgentTeam; readonly made: AgentStates; readonly code: AgentStates };

/** Agents are rebuilt as they were: their tools, the fields of their classes and what their makers give them come from the code. */
export function factsWithCode<Known extends TeamFacts>(known: Known, { team, made, code }: RebuiltTeam): Known {
  const agents = mapValues(known.agents, (facts, name) => {
    const agent = team.agent(name);
    if (agent === undefined) return facts;
    const [fresh, saved] = [made.agents[name] as AgentState, code.agents[name] as AgentState];
    const isSaid = (key: keyof AgentState): boolean =>
      Object.hasOwn(agent.given, key) && !isDeepStrictEqual(fresh[key], saved[key]);
    const { prompt, model, settings } = factsOfAgent(fresh);
    const said = Object.fromEntries(AGENT_SETTINGS.filter(isSaid).map((key) => [key, settings[key] as string]));
    return {
      ...facts,
      ...((isSaid('systemMessage') || isSaid('description')) && { prompt }),
      ...((isSaid('llmConfig') || isSaid('modelId')) && { model }),
      settings: { ...facts.settings, ...said },
      tools: saved.tools,
      ...fieldsOf(agent),
    };
  });
  return { ...known, agents };
}

/** What is saved of a team that runs with this code. */
export function fingerprintOf(
  { agents, settings }: TeamFacts,
  { agents: states }: Pick<AgentStates, 'agents'>,
): TeamFingerprint {
  const prompts = mapValues(states, digestPrompt);
  return { kind: 'team', agents, ...(settings !== undefined && { settings }), prompts };
}

/** What an agent is told to be, in a word. */
export function digestPrompt({ systemMessage, description }: AgentState): string {
  return shorten([systemMessage, description]);
}

function factsOfAgent(agent: AgentState): AgentFacts {
  const { llmConfig, modelId, tools, agentType, codeExecution } = agent;
  return {
    class: agentType,
    prompt: digestPrompt(agent),
    model: modelId ?? shorten(llmConfig),
    tools,
    settings: factsOfSettings(AGENT_SETTINGS.map((key) => [key, agent[key]])),
    code: factsOfSettings(Object.entries(describeCode(codeExecution))),
  };
}

/** Numbers and flags as they are, so that people can be told; other values may be long, or secret. */
function factsOfSettings(entries: readonly (readonly [string, unknown])[]): Facts {
  const given = entries.filter(([, value]) => value !== undefined);
  return Object.fromEntries(given.map(([key, value]) => [key, isPlain(value) ? String(value) : shorten(value)]));
}

function isPlain(value: unknown): boolean {
  return value === null || typeof value === 'number' || typeof value === 'boolean';
}

function shorten(value: unknown): string {
  return digestText(JSON.stringify(value)).slice(0, DIGEST_CHARS);
}

/** The fingerprint of a checkpoint. What it does not say, its state does. */
export function readFingerprint(fingerprint: unknown, { agents }: Pick<AgentStates, 'agents'>): TeamFingerprint {
  const known = isRecord(fingerprint)
    ? (fingerprint as TeamFingerprint)
    : ({ kind: 'team', agents: {}, prompts: {} } as const);
  return { ...known, agents: mapValues(agents, (agent, name) => ({ ...factsOfAgent(agent), ...known.agents[name] })) };
}

/** How a team differs now from what it was. `place` is where a tool is not that is missing: agents have it from their code or the registry. */
export function compareTeams(before: TeamFacts, now: TeamFacts, place = 'in its code'): Difference[] {
  const names = new Set([...Object.keys(before.agents), ...Object.keys(now.agents)]);
  return [
    ...[...names].flatMap((name) => compareAgents({ name, place }, before.agents[name], now.agents[name])),
    ...compareSettings({ path: '$.settings', of: '' }, before.settings, now.settings),
  ];
}

type Holder = { readonly name: string; readonly place: string };

function compareAgents(
  { name, place }: Holder,
  before: AgentFacts | undefined,
  now: AgentFacts | undefined,
): Difference[] {
  const [path, of] = [`$.agents.${name}`, ` of "${name}"`];
  if (now === undefined) return [{ path, kind: 'missing', text: `The agent "${name}" is not in this team.` }];
  if (before === undefined) return [{ path, kind: 'added', text: `The agent "${name}" is new.` }];
  const parts = (['class', 'prompt', 'model'] as const).filter((part) => before[part] !== now[part]);
  const tools = new Set([...Object.keys(before.tools), ...Object.keys(now.tools)]);
  const fields = before.fields === undefined ? [] : compareKinds(before.fields, now.fields ?? {});
  return [
    ...parts.map((part) => ({ path: `${path}.${part}`, kind: 'changed', text: `The ${part}${of} changed.` }) as const),
    ...[...tools].flatMap((tool) => compareTool({ name, place, tool }, before.tools[tool], now.tools[tool])),
    ...compareSettings({ path, of }, before.settings, now.settings),
    ...compareSettings({ path, of }, before.code, now.code),
    ...fields.map((field) => describeField(name, field)),
  ];
}

const FIELD_TEXTS: { readonly [Kind in FieldDifference['kind']]: (field: FieldDifference) => string } = {
  added: () => 'is new',
  missing: () => 'is not in its code',
  changed: ({ was, is }) => `was ${was} in its code, and is ${is}`,
};

function pathOf(name: string, field: string): string {
  return `$.agents.${name}.fields${formatPath([field]).slice(1)}`;
}

function describeField(name: string, difference: FieldDifference): Difference {
  const { field, kind } = difference;
  const text = `The field ${describeValue(field)} of "${name}" ${FIELD_TEXTS[kind](difference)}.`;
  return { path: pathOf(name, field), kind, text };
}

/** A state without the saved fields that the code lacks, or has another kind of value for: they are what the code says. */
export function leaveFields<State extends AgentStates>(state: State, differences: readonly Difference[]): State {
  const left = new Set(differences.filter(({ kind }) => kind !== 'added').map(({ path }) => path));
  const agents = mapValues(state.agents, (agent, name) => {
    if (agent.fields === undefined) return agent;
    const kept = Object.entries(agent.fields).filter(([field]) => !left.has(pathOf(name, field)));
    return { ...agent, fields: Object.fromEntries(kept) };
  });
  return { ...state, agents };
}

function compareTool(
  { name, place, tool }: Holder & { readonly tool: string },
  before: string | undefined,
  now: string | undefined,
): Difference[] {
  if (before === now) return [];
  const path = `$.agents.${name}.tools.${tool}`;
  const what = `The tool "${tool}" of "${name}"`;
  if (now === undefined) return [{ path, kind: 'missing', text: `${what} is not ${place}.` }];
  if (before === undefined) return [{ path, kind: 'added', text: `${what} is new.` }];
  return [{ path, kind: 'changed', text: `${what} changed.` }];
}

function compareSettings(
  { path, of }: { readonly path: string; readonly of: string },
  before: Facts = {},
  now: Facts = {},
): Difference[] {
  return Object.entries(before).flatMap(([key, was]) => {
    const is = now[key];
    if (is === undefined || is === was) return [];
    const isShown = was.length < DIGEST_CHARS && is.length < DIGEST_CHARS;
    const change = `The setting "${key}"${of} changed${isShown ? ` from ${was} to ${is}` : ''}`;
    const text =
      key === 'codeExecution' && is === 'false' ? `${change}: code execution is not allowed here.` : `${change}.`;
    return [{ path: `${path}.${key}`, kind: 'changed', text }];
  });
}

/**
 * The team as the code has it now, with the lives of those whom the checkpoint knows; newcomers get one. Agents keep the team's
 * conversation under the name of its leader.
 */
export function adoptAgents(
  saved: AgentStates,
  code: AgentStates,
  { newcomer, was, is }: { readonly newcomer: Partial<AgentState>; readonly was: string; readonly is: string },
): Pick<AgentStates, 'order' | 'agents'> {
  const order = [...new Set([...saved.order, ...code.order])].filter((name) => code.agents[name] !== undefined);
  const rename = <Value>(values: Readonly<Record<string, Value>>) =>
    Object.fromEntries(Object.entries(values).map(([key, value]) => [key === was ? is : key, value]));
  const agents = order.map((name) => {
    const [life, made] = [saved.agents[name], code.agents[name] as AgentState];
    if (life === undefined) return [name, { ...made, ...newcomer }];
    const heard = { histories: rename(life.histories), autoReplies: rename(life.autoReplies) };
    return [name, { ...life, ...heard, ...codeOf(made) }];
  });
  return { order, agents: Object.fromEntries(agents) };
}

/** The agents of a team that had ended and goes on. */
export function reopenAgents(agents: AgentStates['agents']): AgentStates['agents'] {
  return mapValues(agents, (agent) => (agent.status === 'completed' ? { ...agent, status: 'running' } : agent));
}

function codeOf(agent: AgentState): Partial<AgentState> {
  return Object.fromEntries(CODE_FIELDS.map((field) => [field, agent[field]]));
}
