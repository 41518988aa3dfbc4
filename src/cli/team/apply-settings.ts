import { InvalidInputError } from '../../core/errors.ts';
import { formatSuggestion, suggest } from '../../core/suggestion.ts';
import type { StandardAgent } from '../../runtime/agent/standard-agent.ts';
import type { GroupChat } from '../../runtime/chat/group-chat.ts';
import type { Fleet } from '../../runtime/fleet/fleet.ts';
import { fleetOptionsFrom } from '../../runtime/fleet/fleet-options.ts';
import { createPolicy } from '../../runtime/fleet/operation-policy.ts';
import type { FoundSettings } from '../place/settings-file.ts';
import type { Team } from './open-team.ts';

/** A team that begins as `workflow.yaml` says, where it says something. What is resumed keeps the limits it was saved with. */
export function withSettings(team: Team, settings: FoundSettings): Team {
  if (team.kind === 'chat') return { ...team, create: () => applyToChat(team.create(), settings) };
  return { ...team, create: () => applyToFleet(team.create(), settings) };
}

/** What the settings say that a group chat does not have. */
export function strayInChat({ written }: FoundSettings): string[] {
  const { max_stalls, max_resets, human_in_the_loop } = written.workflow ?? {};
  const parts = { 'workflow.max_stalls': max_stalls, 'workflow.max_resets': max_resets };
  const stray = { ...parts, 'workflow.human_in_the_loop': human_in_the_loop, fleet: written.fleet };
  return Object.entries(stray).flatMap(([name, value]) => (value === undefined ? [] : [name]));
}

function applyToChat(chat: GroupChat, settings: FoundSettings): GroupChat {
  const { max_rounds: maxRounds } = settings.config.workflow;
  if (maxRounds !== undefined) chat.change({ settings: { ...chat.record.settings, maxRounds }, roundLimit: maxRounds });
  applyToAgents(chat.agents, settings);
  return chat;
}

function applyToFleet(fleet: Fleet, found: FoundSettings): Fleet {
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
  return fleet;
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
