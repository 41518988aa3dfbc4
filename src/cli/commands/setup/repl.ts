import { closing } from '../../base/closing.ts';
import type { Command } from '../../base/command.ts';
import { TALK_OPTIONS } from '../../team/talk-options.ts';

/** Looks and moves around step by step. */
export const command: Command = {
  options: [
    ['--eval <lines>', 'run these lines, separated by ;, and exit'],
    ['-n, --rounds <n>', 'maximum replies per prompt, also after resume; default: max_rounds of the team'],
    ...TALK_OPTIONS,
  ],
  details: `Bare "savestate" on a terminal is the same. Lines may also come from a pipe; then the first error ends it.
The configured team answers prompts; without a team or a storage, everything else works.`,
  examples: [
    ['savestate repl', 'type help for the commands'],
    [`savestate repl --eval 'checkpoints; show @~2'`, 'in a script'],
    ['printf "back 2\\nshow\\n" | savestate repl', 'the same from a pipe'],
  ],
  run: async (context, input) => {
    const [{ runRepl }, { findReplTeam }] = await Promise.all([
      import('../../repl/run-repl.ts'),
      import('../../repl/repl-team.ts'),
    ]);
    const found = await findReplTeam(context, input);
    return closing(found.team, async (team) => {
      await team?.tend();
      return runRepl(context, input.text('eval'), found);
    });
  },
};
