import { basename } from 'node:path';
import { InvalidInputError } from '../../core/errors.ts';
import type { ServedTeam, TeamRequest, TeamStop } from '../../server/handlers/team-runs.ts';
import type { Context, OptionRow } from '../base/command.ts';
import { type CommandInput, flagOf } from '../base/command-input.ts';
import type { Talk } from '../team/talk.ts';
import { TALK_OPTIONS } from '../team/talk-options.ts';

/** What is only for a team that is run from the page. */
const TEAM_ONLY = ['registry', 'allowCode', 'onDifference', 'user', 'logs'];

/** Options of commands whose page may run a team. Only the flag allows it: no file and nothing stored does. */
export const SERVED_TEAM_OPTIONS: readonly OptionRow[] = TALK_OPTIONS.filter(
  ([flag]) => !flag.startsWith('--memory'),
).map(([flag, words, ...rest]) =>
  flag.startsWith('--team') ? [flag, 'let the page run this team: a team.yaml, or a module'] : [flag, words, ...rest],
);

/** The team that --team names, and how to end; undefined if none is named. */
export async function openServedTeam(
  context: Context,
  input: CommandInput,
): Promise<{ readonly team: ServedTeam; readonly close: () => Promise<void> } | undefined> {
  const file = input.text('team');
  if (file === undefined) {
    const stray = TEAM_ONLY.find((name) => input.has(name));
    if (stray === undefined) return undefined;
    throw new InvalidInputError(`${flagOf(stray)} is about the team that the page may run: it goes with --team.`);
  }
  if (input.flag('readOnly'))
    throw new InvalidInputError('--read-only and --team contradict each other: pass one of them.');
  await context.checkSaving();
  const { openTeam, readTeamChoice } = await import('../team/open-team.ts');
  const { Talk: Conversation } = await import('../team/talk.ts');
  const talk = await Conversation.open(context, await openTeam(context, readTeamChoice(input)), input);
  const team = { label: basename(file), run: (request: TeamRequest) => runTeam(context, talk, request) };
  return { team, close: () => talk.close() };
}

/** As `continue` does, or, from a checkpoint, `resume`. Nobody is asked here: the page answers. */
async function runTeam(context: Context, talk: Talk, { at, signal, ...order }: TeamRequest): Promise<TeamStop> {
  const from = at === undefined ? undefined : await (await context.open()).manager.open(at);
  return talk.run({ ...order, from }, { signal, onText: ignore, onMessage: ignore, onWork: ignore });
}

const ignore = (): undefined => undefined;
