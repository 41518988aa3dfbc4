import { InvalidInputError } from '../../../core/errors.ts';
import { storageExists } from '../../../storage/open/address.ts';
import type { Command } from '../../base/command.ts';
import { type CommandInput, flagOf } from '../../base/command-input.ts';
import type { Context } from '../../base/context.ts';
import type { OpenTalk } from '../../team/open-talk.ts';
import type { Team } from '../../team/open-team.ts';
import type { ReplTeam } from '../../team/repl-team.ts';
import { checkKind, newSessionName, readOnDifference, TALK_OPTIONS } from '../../team/talk-options.ts';

/** Looks and moves around step by step. */
export const command: Command = {
  options: [
    ['--eval <lines>', 'run these lines, with ; between them, and end'],
    ['-n, --rounds <n>', 'how many replies a prompt may bring, also after resume; default: max_rounds of the team'],
    ...TALK_OPTIONS,
  ],
  details: `Bare "savestate" on a terminal is the same. Lines may also come from a pipe; then the first error ends it.
Prompts are answered by the configured team; without one, or without a storage, everything else works.`,
  examples: [
    ['savestate repl', 'type help for the commands'],
    [`savestate repl --eval 'checkpoints; show @~2'`, 'in a script'],
    ['printf "back 2\\nshow\\n" | savestate repl', 'the same from a pipe'],
  ],
  run: async (context, input) => {
    const { runRepl } = await import('../../repl/run-repl.ts');
    const { close, tend, ...found } = await findReplTeam(context, input);
    try {
      await tend?.();
      return await runRepl(context, { script: input.text('eval'), ...found });
    } finally {
      await close();
    }
  },
};

type FoundTeam = {
  readonly team?: ReplTeam;
  /** Why there is none: one looks around without it. */
  readonly teamError?: unknown;
  /** Sees to what was cut off. */
  readonly tend?: () => Promise<void>;
  readonly close: () => Promise<void>;
};

const NO_TEAM: FoundTeam = { close: async () => undefined };

/** The configured team; what it needs is loaded only if there is one. */
async function findReplTeam(context: Context, input: CommandInput): Promise<FoundTeam> {
  if (input.count('rounds') === 0) throw new InvalidInputError('--rounds must be 1 or more.');
  readOnDifference(input);
  const named = input.text('team') ?? (context.env.SAVESTATE_TEAM || (await context.config())?.config.team);
  if (named === undefined) {
    // They could only be ignored.
    const stray = ['rounds', 'registry', 'user', 'allowCode', 'onDifference', 'logs'].find((name) => input.has(name));
    if (stray !== undefined)
      throw new InvalidInputError(`There is no team here that ${flagOf(stray)} could be for. Give --team <file>, too.`);
    return NO_TEAM;
  }
  const { openTeam, readTeamChoice } = await import('../../team/open-team.ts');
  const without = (error: unknown) => ({ ...NO_TEAM, teamError: error });
  const found = await openTeam(context, readTeamChoice(input)).catch(without);
  if ('close' in found) return found;
  checkKind(input, found.kind);
  return createReplTeam(context, input, { ...found, file: named }).catch(without);
}

async function createReplTeam(
  context: Context,
  input: CommandInput,
  team: Team & { readonly file: string },
): Promise<FoundTeam> {
  const [{ openTalk }, { tendCutOff }, { replWords }, { ChatTeam }, { noteBranch }] = await Promise.all([
    import('../../team/open-talk.ts'),
    import('../../team/cut-off.ts'),
    import('../../team/run-text.ts'),
    import('../../team/chat-team.ts'),
    import('../../team/branch-note.ts'),
  ]);
  let opened: Promise<OpenTalk> | undefined;
  const open = async () => {
    opened ??= context.openForRun().then((opened) => openTalk(context, { team, opened }, input));
    return (await opened).talk;
  };
  // Looking makes no storage; one that is there is tidied now.
  if (storageExists(await context.address()) || (await context.settings()) !== undefined) await open();
  const chat = new ChatTeam({
    ...describeTeam(team),
    open,
    rounds: input.count('rounds'),
    newSession: () => newSessionName('chat'),
    onDepart: async (from) => noteBranch(context, await (await context.open()).openCheckpoint(from)),
  });
  const tend = async () => {
    if (opened === undefined) return;
    await tendCutOff(context, { team, opened: await context.open(), talk: await open(), words: replWords });
  };
  return { team: chat, tend, close: async () => (await opened?.catch(() => undefined))?.close() };
}

function describeTeam(team: Team & { readonly file: string }): { readonly name: string; readonly teamRounds: number } {
  const { kind, file } = team;
  const made = team.create();
  const { settings } = made.record;
  const name = `a ${kind} of ${made.agents.map((agent) => agent.name).join(', ')} (${file})`;
  return { name, teamRounds: 'maxRounds' in settings ? settings.maxRounds : settings.maxRoundCount };
}
