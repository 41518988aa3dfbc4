import { InvalidInputError } from '../../core/errors.ts';
import { formatSuggestion, suggest } from '../../core/suggestion.ts';
import type { StandardAgent } from '../../runtime/agent/standard-agent.ts';
import type { ChatState } from '../../runtime/chat/chat-state.ts';
import type { GroupChat } from '../../runtime/chat/group-chat.ts';
import type { Fleet } from '../../runtime/fleet/fleet.ts';
import { fleetOptionsFrom } from '../../runtime/fleet/fleet-options.ts';
import type { FleetState } from '../../runtime/fleet/fleet-state.ts';
import { createPolicy, findOperation, type OperationPolicy } from '../../runtime/run/run-options.ts';
import { configureTeam } from '../../runtime/run/team.ts';
import type { FoundSettings } from '../place/project.ts';
import type { Team } from './open-team.ts';

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
