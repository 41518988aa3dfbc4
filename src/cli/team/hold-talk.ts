import type { CommandInput } from '../base/command-input.ts';
import type { Context } from '../base/context.ts';
import type { ExitCode } from '../base/exit-code.ts';
import type { OpenStorage } from '../base/open-storage.ts';
import { openTalk } from './open-talk.ts';
import { openTeam, readTeamChoice, type Team } from './open-team.ts';
import { RunFollower } from './run-output.ts';
import type { Following, Talk, TeamResult } from './talk.ts';
import { checkKind } from './talk-options.ts';

/** A talk that a command holds: with whom, where, and who listens. */
export type HeldTalk = {
  readonly team: Team;
  readonly opened: OpenStorage;
  readonly talk: Talk;
  readonly following: Following;
};

/** Holds a talk with the team that a command names, and tells how it ended; returns the exit code. */
export async function holdTalk(
  context: Context,
  input: CommandInput,
  work: (held: HeldTalk) => Promise<TeamResult>,
): Promise<ExitCode | undefined> {
  const team = await openTeam(context, readTeamChoice(input));
  checkKind(input, team.kind);
  const opened = await context.openForRun();
  const follower = new RunFollower(context);
  const { talk, close } = await openTalk(context, { team, opened }, input);
  try {
    return await follower.end(await work({ team, opened, talk, following: follower.following }));
  } finally {
    await close();
  }
}
