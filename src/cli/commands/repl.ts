import { InvalidInputError } from '../../core/errors.ts';
import type { Command } from '../command.ts';
import type { CommandInput } from '../command-input.ts';
import type { Context } from '../context.ts';
import type { ReplTeam } from '../repl/repl-team.ts';
import { newSessionName } from '../team/session-name.ts';
import { TALK_OPTIONS } from '../team/talk-options.ts';

/** Looks and moves around step by step. */
export const command: Command = {
  options: [
    ['--eval <lines>', 'run these lines, with ; between them, and end'],
    ['-n, --rounds <n>', 'how many replies a prompt may bring; default: max_rounds of the team'],
    ...TALK_OPTIONS,
  ],
  details: `Bare "savestate" on a terminal is the same. Lines may also come from a pipe; then the first error ends it.
Prompts are answered by the configured team; without one everything else works.`,
  examples: [
    ['savestate repl', 'type help for the commands'],
    [`savestate repl --eval 'checkpoints; show @~2'`, 'in a script'],
    ['printf "back 2\\nshow\\n" | savestate repl', 'the same from a pipe'],
  ],
  run: async (context, input) => {
    const { runRepl } = await import('../repl/run-repl.ts');
    const { team, close } = await findReplTeam(context, input);
    try {
      return await runRepl(context, { script: input.text('eval'), team });
    } finally {
      await close();
    }
  },
};

type FoundTeam = { readonly team: ReplTeam | undefined; readonly close: () => Promise<void> };

/** The configured team; what it needs is loaded only if there is one. */
async function findReplTeam(context: Context, input: CommandInput): Promise<FoundTeam> {
  const rounds = input.count('rounds');
  if (rounds === 0) throw new InvalidInputError('--rounds must be 1 or more.');
  const named = input.text('team') ?? (context.env.SAVESTATE_TEAM || (await context.config())?.config.team);
  if (named === undefined) return { team: undefined, close: async () => undefined };
  const workspace = await context.runWorkspace();
  const [{ openTeam, readTeamChoice }, { openTalk }, { ChatTeam }, { BranchNote }] = await Promise.all([
    import('../team/open-team.ts'),
    import('../team/open-talk.ts'),
    import('../team/chat-team.ts'),
    import('../team/branch-note.ts'),
  ]);
  const { talk, close } = await openTalk(
    context,
    { team: await openTeam(context, readTeamChoice(input)), workspace },
    input,
  );
  const team = new ChatTeam(talk, {
    rounds,
    newSession: () => newSessionName('chat'),
    onDepart: async (from) => {
      const note = await BranchNote.begin(context, await workspace.openCheckpoint(from));
      return (result) => note.end(result);
    },
  });
  return { team, close };
}
