import { dirname, resolve } from 'node:path';
import { InvalidInputError, NotFoundError } from '../../core/errors.ts';
import { formatSuggestion, suggest } from '../../core/suggestion.ts';
import { AgentRegistry } from '../../runtime/agent/agent-registry.ts';
import type { StandardAgent } from '../../runtime/agent/standard-agent.ts';
import type { ChatState } from '../../runtime/chat/chat-state.ts';
import type { GroupChat } from '../../runtime/chat/group-chat.ts';
import { createTeam, parseTeam } from '../../runtime/chat/team-config.ts';
import type { Fleet } from '../../runtime/fleet/fleet.ts';
import { fleetOptionsFrom } from '../../runtime/fleet/fleet-options.ts';
import type { FleetState } from '../../runtime/fleet/fleet-state.ts';
import { createPolicy, findOperation, type OperationPolicy } from '../../runtime/run/run-options.ts';
import { configureTeam } from '../../runtime/run/team.ts';
import type { CommandInput, Context } from '../base/command.ts';
import type { FoundSettings } from '../place/project.ts';
import { readConfigured, resolveFile } from '../place/read-text.ts';
import { importModule, type Module, requireBeside } from './import-module.ts';

/** The configured team: the code that restored conversations need, and how a new conversation is made. */
export type Team =
  | { readonly kind: 'chat'; readonly registry: AgentRegistry; readonly create: () => GroupChat }
  | { readonly kind: 'fleet'; readonly registry: AgentRegistry; readonly create: () => Fleet };

/** Which team and which code, if not those that savestate.yaml names, and whether its agents may run code here. */
export type TeamChoice = {
  readonly file?: string | undefined;
  readonly registry?: string | undefined;
  readonly allowsCode?: boolean;
};

/** What the flags of a command say of the team. */
export function readTeamChoice(input: CommandInput): TeamChoice {
  return { file: input.text('team'), registry: input.text('registry'), allowsCode: input.flag('allowCode') };
}

/** The team that `--team`, SAVESTATE_TEAM or savestate.yaml names: a `team.yaml`, or a module. */
export async function openTeam(context: Context, choice: TeamChoice): Promise<Team> {
  const { path: project = '', config = {} } = (await context.config()) ?? {};
  const place = { here: context.folder, project: dirname(project) };
  const path = pick(place, choice.file ?? (context.env.SAVESTATE_TEAM || undefined), config.team);
  if (path === undefined)
    throw new NotFoundError(
      'There is no team here. Describe one in team.yaml and name it in savestate.yaml ("team: team.yaml"), or give --team <file>.',
    );
  const parts = { env: context.env, registry: pick(place, choice.registry, config.registry) };
  const team = await (/\.ya?ml$/.test(path) ? readTeam(path, parts) : importTeam(path, parts));
  if (choice.allowsCode === true) team.registry.allowCode(context.folder);
  const settings = await context.settings();
  return settings === undefined ? team : withSettings(team, settings);
}

/** What the person named, relative to where they are, else what the project names, relative to its file. */
function pick(
  { here, project }: { readonly here: string; readonly project: string },
  named: string | undefined,
  configured: string | undefined,
): string | undefined {
  if (named !== undefined) return resolveFile(here, named);
  return configured === undefined ? undefined : resolveFile(project, configured);
}

type TeamParts = { readonly env: Context['env']; readonly registry: string | undefined };

async function readTeam(path: string, { env, registry: named }: TeamParts): Promise<Team> {
  const config = parseTeam(readConfigured(path, 'team file'), { source: path });
  const code = named ?? (config.registry && resolveBeside(path, config.registry));
  const registry = openRegistry(code === undefined ? undefined : await importModule(code), env);
  return { kind: 'chat', registry, create: () => createTeam(config, registry) };
}

function resolveBeside(path: string, named: string): string {
  requireBeside(path, resolve(dirname(path), named));
  return resolveFile(dirname(path), named);
}

async function importTeam(path: string, { env, registry: named }: TeamParts): Promise<Team> {
  const module = await importModule(path);
  const registry = openRegistry(named === undefined ? module : await importModule(named), env);
  const { createTeam: createChat, createFleet } = module;
  if (typeof createChat === 'function')
    return { kind: 'chat', registry, create: () => createChat({ env, registry }) as GroupChat };
  if (typeof createFleet === 'function')
    return { kind: 'fleet', registry, create: () => createFleet({ env, registry }) as Fleet };
  throw new InvalidInputError(
    `${path} exports neither a function "createTeam", which returns a GroupChat, nor "createFleet", which returns a Fleet.`,
    { details: { path } },
  );
}

/** A registry of a module is an AgentRegistry, or what one is made of; keys come from the environment of the command line. */
function openRegistry(module: Module | undefined, env: Context['env']): AgentRegistry {
  const given = module?.registry;
  if (given === undefined) return new AgentRegistry({ env });
  if (typeof given !== 'object' || given === null)
    throw new InvalidInputError('The export "registry" must be an AgentRegistry, or the options for one.');
  if ('modelFor' in given) return given as AgentRegistry;
  // Workflows may find their code in the same export.
  const { functions: _, workflows: __, ...options }: { functions?: unknown; workflows?: unknown } = given;
  return new AgentRegistry({ env, ...options });
}

/** A team that begins as `workflow.yaml` says, where it says something. What is resumed keeps the settings it was saved with. */
export function withSettings(team: Team, settings: FoundSettings): Team {
  if (team.kind === 'fleet') return { ...team, create: () => configured(team.create(), settings, applyToFleet) };
  refuseStray(team.create(), settings);
  return { ...team, create: () => configured(team.create(), settings, applyToChat) };
}

function configured<Made extends GroupChat | Fleet>(
  made: Made,
  settings: FoundSettings,
  apply: (made: Made, settings: FoundSettings) => void,
): Made {
  configureTeam<ChatState | FleetState>(made, () => apply(made, settings));
  return made;
}

/** Refuses what the settings say and a group chat cannot keep: whoever wrote it relies on it. */
function refuseStray(chat: GroupChat, { path, written, config }: FoundSettings): void {
  const { max_stalls, max_resets, human_in_the_loop } = written.workflow ?? {};
  const parts = { 'workflow.max_stalls': max_stalls, 'workflow.max_resets': max_resets, fleet: written.fleet };
  const stray = Object.entries(parts).flatMap(([name, value]) => (value === undefined ? [] : [name]));
  const instead = 'or run a fleet: a module that exports createFleet.';
  if (stray.length > 0)
    throw new InvalidInputError(
      `${path} says ${stray.join(', ')}, which a group chat does not have. Take it out of the file, ${instead}`,
      { details: { settings: stray } },
    );
  const { human_in_the_loop: approvals } = config.workflow;
  const ungated = human_in_the_loop === undefined ? undefined : findUngated(chat, createPolicy(approvals));
  if (ungated === undefined) return;
  throw new InvalidInputError(
    `${path} says workflow.human_in_the_loop, and a group chat asks nobody before ${ungated}. Name what is harmless in trusted_operations, take the setting out and let a person reply for the agent (human_input_mode: ALWAYS), ${instead}`,
    { details: { settings: ['workflow.human_in_the_loop'] } },
  );
}

/** The first thing that an agent would do without a person's word. Nobody says what the tools of a chat do, so only trusted ones are free. */
function findUngated({ agents }: GroupChat, policy: OperationPolicy): string | undefined {
  if (policy.requireApprovalFor.length === 0) return undefined;
  const strict = { ...policy, requireApprovalFor: ['*'] };
  for (const { name, tools, codeExecution } of agents.map((agent) => agent.saveState())) {
    const tool = Object.keys(tools).find((each) => findOperation(strict, { kind: 'tool', name: each }) !== undefined);
    if (tool !== undefined) return `"${name}" calls ${tool}`;
    const isCodeFree = findOperation(policy, { kind: 'code', name }) === undefined;
    if (codeExecution !== false && !isCodeFree) return `"${name}" runs code`;
  }
  return undefined;
}

function applyToChat(chat: GroupChat, settings: FoundSettings): void {
  const { max_rounds: maxRounds } = settings.config.workflow;
  if (maxRounds !== undefined) chat.change({ settings: { ...chat.record.settings, maxRounds }, roundLimit: maxRounds });
  applyToAgents(chat.agents, settings);
}

function applyToFleet(fleet: Fleet, found: FoundSettings): void {
  const { written, config } = found;
  const { humanInTheLoop, planReview, callbacks, ...limits } = fleetOptionsFrom(config);
  const { settings: own } = fleet.record;
  const settings = {
    ...own,
    ...limits,
    ...(written.fleet?.plan_review !== undefined && { planReview: planReview === true }),
    ...(written.fleet?.callbacks !== undefined && { callbacks: { ...own.callbacks, ...callbacks } }),
    ...(written.workflow?.human_in_the_loop !== undefined && {
      policy: createPolicy(humanInTheLoop, own.policy.operations),
    }),
  };
  fleet.change({ settings, roundLimit: settings.maxRoundCount, resetLimit: settings.maxResetCount });
  applyToAgents(fleet.agents, found);
}

function applyToAgents(agents: readonly StandardAgent[], { path, written }: FoundSettings): void {
  for (const [name, { runtime = {} }] of Object.entries(written.agents ?? {})) {
    const agent = agents.find((each) => each.name === name);
    if (agent === undefined) throw unknownAgent(path, name, agents);
    const state = agent.saveState();
    const flags = Object.fromEntries(Object.entries(runtime).filter(([, flag]) => flag !== undefined));
    agent.loadState({ ...state, runtime: { ...state.runtime, ...flags } });
  }
}

function unknownAgent(path: string, name: string, agents: readonly StandardAgent[]): InvalidInputError {
  const names = agents.map((agent) => agent.name);
  return new InvalidInputError(
    `${path}: agents.${name}: the team has no agent "${name}".${formatSuggestion(suggest(name, names))} It has: ${names.join(', ')}.`,
    { details: { agent: name } },
  );
}
