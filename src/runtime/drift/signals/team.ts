import { z } from 'zod';
import type { ReadEvent } from '../step/drift-event.ts';
import { count, type SignalFinding, text } from '../step/signal.ts';
import { differInNumbers, type StepReading } from '../step/step.ts';

/** How a team gets on whose work one agent has planned: moving means over its orders and over what the others report. */
export const teamTalk = z.object({
  planner: text,
  /** Who has reported: only what was said after that can repeat something. */
  reporters: z.array(text),
  reports: count,
  unplanned: z.number().optional(),
  likeness: z.number(),
  /** What it has added to the planner's account. */
  nats: z.number(),
});
type TeamTalk = z.infer<typeof teamTalk>;

/** Agents that are remembered for how they work. */
const MAX_AGENTS = 16;

export function addName(names: readonly string[], name: string): string[] {
  return [name, ...names.filter((other) => other !== name)].slice(0, MAX_AGENTS);
}

/** An alarm at the default. */
const ALARM_NATS = 4.6;
/** Weight of the newest order or report in the moving means: about the last two count. */
const TEAM_WEIGHT = 0.5;
/** How alike the reports of a team are that gets on, and of one that does not, if it has left its plan. */
const HEALTHY_LIKENESS = 0.2;
const STALLED_LIKENESS = 0.4;
/** Orders of which this part is in neither task nor plan have left the plan. */
const LEFT_PLAN = 0.25;
/** As long as the orders follow the plan, reports may be twice as alike. */
const PLANNED_FACTOR = 0.5;
/** One report that repeats another is never enough. */
const MIN_REPORTS = 2;
/** At most two alarms, so that a team that gets on again is believed soon. */
const MAX_TEAM_ALARMS = 2;

/** The team after an event: another plan, or a person who speaks, sets it going again. */
export function renewTeam(team: TeamTalk | undefined, { kind, agent, isAgent }: ReadEvent): TeamTalk | undefined {
  const isPlan = kind === 'plan' && isAgent;
  const planner = isPlan ? agent : team?.planner;
  if (planner === undefined || !(isPlan || (kind === 'message' && !isAgent))) return team;
  return { planner, reporters: team?.reporters ?? [], reports: 0, likeness: 0, nats: 0 };
}

/** Takes back what was held against a team that has been set going again. */
export function endTeam(before: TeamTalk | undefined, now: TeamTalk | undefined, { index }: ReadEvent) {
  if (before === undefined || before === now || before.nats === 0) return undefined;
  return { agent: before.planner, nats: -before.nats, steps: [index], reason: 'The team was set going again.' };
}

/** Takes in an order of the planner, or a report; returns whether there were both. */
export function hearTeam(
  team: TeamTalk,
  { step: { agent, input }, twin, similarity, unplanned }: StepReading,
): boolean {
  if (agent === team.planner) {
    team.unplanned = moveMean(team.unplanned, unplanned);
  } else if (team.reporters.includes(agent)) {
    // The same but for a number is the next of a list, or a gauge.
    const likeness = differInNumbers(input, twin?.input) ? 0 : similarity;
    team.likeness = moveMean(team.reports === 0 ? undefined : team.likeness, likeness);
    team.reports++;
  } else {
    team.reporters = addName(team.reporters, agent);
  }
  return team.unplanned !== undefined && team.reporters.length > 0;
}

/**
 * A team gets on as long as the orders are about the task and the plan, and the reports differ. Once nothing works, whoever
 * directs it thinks of other ways, and the same comes back.
 */
export function judgeTeam(team: TeamTalk, { step, twin }: StepReading): SignalFinding | undefined {
  const { planner, reports, unplanned = 0, likeness, nats } = team;
  if (reports < MIN_REPORTS) return undefined;
  const level = likeness * (unplanned >= LEFT_PLAN ? 1 : PLANNED_FACTOR);
  const excess = (level - HEALTHY_LIKENESS) / (STALLED_LIKENESS - HEALTHY_LIKENESS);
  team.nats = ALARM_NATS * Math.max(0, Math.min(MAX_TEAM_ALARMS, excess));
  return {
    agent: planner,
    nats: team.nats - nats,
    steps: twin === undefined ? [step.index] : [twin.index, step.index],
    reason: `${percent(unplanned)} of what ${planner} orders is in neither task nor plan, and reports repeat ${percent(likeness)} of earlier ones.`,
  };
}

const moveMean = (mean: number | undefined, next: number): number =>
  mean === undefined ? next : mean + TEAM_WEIGHT * (next - mean);

export const percent = (share: number): string => `${Math.round(share * 100)} %`;
