import { Command as Commander, CommanderError, type Help, Option } from 'commander';
import { InvalidInputError } from '../core/errors.ts';
import { formatSuggestion, suggest } from '../core/suggestion.ts';
import type { Command, CommandRow, Program, ProgramParts } from './base/command.ts';
import { CommandInput, findName, GLOBAL_ROWS, readGlobalOptions } from './base/command-input.ts';
import { EXIT, type ExitCode } from './base/exit-code.ts';
import { COMMANDS } from './command-table.ts';

const INTRO = 'Save states for AI agents: look at, compare, fork, search, check and forget what agents did.';

const DEFAULT_COLUMNS = 80;

const OUTRO = `Revisions: an id or a prefix of one, a branch, a tag, @ (the head), @~3, name~2, #12, @{2h ago}, a..b, "message 3", "round 2", "before tool search"
Start with: savestate demo, savestate init, savestate log --graph
If it is not on the PATH, as after npm install, use npx savestate.
Exit codes: 0 done, 1 failed, 2 usage error, 3 done in part, 4 damage found, 10 no storage, 11 locked, 13 not found, 14 conflict, 15 unsupported, 16 replay mismatch, 17 model, 18 key, 130 stopped`;

/** The program with all its commands. */
export const PROGRAM: Program = { commands: COMMANDS, run };

/** Only the module of the command that is named is loaded. */
async function run(args: readonly string[], parts: ProgramParts): Promise<ExitCode> {
  const first = findName(args);
  const name = first === 'help' ? findName(args.slice(args.indexOf('help') + 1)) : first;
  if (name === 'checkpoints')
    throw new InvalidInputError('"checkpoints" is a command of the REPL. Here the history is listed by: savestate log');
  const row = COMMANDS.find((each) => each.name === name);
  const loaded = row === undefined ? undefined : (await row.load()).command;
  let code: ExitCode = EXIT.ok;
  const said: string[] = [];
  const isJson = args.includes('--json'); // then whoever runs this tells the error, in one line
  const program = createRoot(isJson ? { ...parts, note: (text) => void said.push(text) } : parts);
  for (const each of COMMANDS) {
    const commander = program.command(each.name, { hidden: each.isHidden === true });
    describe(commander, each);
    if (each !== row || loaded === undefined) continue;
    define(commander, loaded);
    commander.action(async () => {
      const globals = readGlobalOptions([program, commander]);
      const input = new CommandInput(commander.args, commander.opts());
      if (globals.session !== undefined) checkSessionUsed(each.name, input);
      code = (await parts.run(loaded, input, globals)) ?? EXIT.ok;
    });
  }
  return parse(program, { args, said }, () => code);
}

/** Commands that are not about one session. */
const SESSIONLESS =
  'sessions stats serve studio mcp verify gc import backup restore-backup key workflow init config doctor completion demo langgraph';

/** Commands that are not about one session with these words. */
const SESSIONLESS_WITH: Readonly<Record<string, (input: CommandInput) => boolean>> = {
  follow: (input) => input.has('all'),
  drift: (input) => input.word(0) !== undefined,
  forget: (input) => input.has('wholeSession') || input.has('user'),
  memory: (input) => !input.has('asOf'),
};

/** Throws where `--session` would be ignored. */
function checkSessionUsed(name: string, input: CommandInput): void {
  if (!SESSIONLESS.split(' ').includes(name) && SESSIONLESS_WITH[name]?.(input) !== true) return;
  const words = SESSIONLESS_WITH[name] === undefined ? '' : ' with these words';
  const more = name === 'backup' ? ' For one session: savestate copy -s <id> --to <address>.' : '';
  throw new InvalidInputError(`"${name}"${words} does not take --session. Leave it out.${more}`);
}

type Parsed = { readonly args: readonly string[]; readonly said: readonly string[] };

async function parse(program: Commander, { args, said }: Parsed, codeOf: () => ExitCode): Promise<ExitCode> {
  try {
    await program.parseAsync(args, { from: 'user' });
    return codeOf();
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    if (error.exitCode === 0) return EXIT.ok;
    if (said.length > 0)
      throw new InvalidInputError(
        said
          .join('')
          .replace(/^error: /, '')
          .trimEnd(),
      );
    return EXIT.usage; // commander said it already
  }
}

function createRoot({ version, print, note, columns = DEFAULT_COLUMNS }: ProgramParts): Commander {
  const program = new Commander('savestate')
    .description(INTRO)
    .version(version, '-V, --version', 'print the version')
    .helpOption('-h, --help', 'explain the command')
    .helpCommand('help [command]', 'explain a command')
    .addHelpText('after', (context) => `\n${context.command.createHelp().boxWrap(OUTRO, columns)}`)
    .showSuggestionAfterError(true)
    .configureOutput({
      writeOut: print,
      writeErr: note,
      getOutHelpWidth: () => columns,
      getErrHelpWidth: () => columns,
    })
    .enablePositionalOptions()
    .exitOverride();
  addGlobals(program, false);
  return program;
}

function addGlobals(commander: Commander, isHidden: boolean): void {
  for (const [flags, description] of GLOBAL_ROWS)
    commander.addOption(new Option(flags, description).hideHelp(isHidden));
}

function describe(commander: Commander, { summary, group }: CommandRow): void {
  commander
    .summary(summary)
    .description(`${summary[0]?.toUpperCase()}${summary.slice(1)}.`)
    .helpGroup(`${group}:`);
}

function define(commander: Commander, command: Command): void {
  for (const argument of command.arguments?.split(' ') ?? []) commander.argument(argument);
  for (const [flags, description, repeat] of command.options ?? []) {
    const option = new Option(flags, description);
    const collect = (value: string, before: readonly string[] = []) => [...before, value];
    commander.addOption(repeat === undefined ? option : option.argParser(collect));
  }
  if (command.isPassedOn === true) commander.passThroughOptions().allowUnknownOption().helpOption(false);
  addGlobals(commander, true);
  const [example] = command.examples;
  if (example !== undefined)
    commander.configureOutput({
      outputError: (text, write) => write(`${withSuggestion(text, commander)}For instance: ${example[0]}\n`),
    });
  const widthOf = () => commander.configureOutput().getOutHelpWidth?.() ?? DEFAULT_COLUMNS;
  commander
    .allowExcessArguments(false)
    .addHelpText('after', () => formatMore(command, commander.createHelp(), widthOf()));
}

/** Options of every command are hidden in the help of one, where the parser finds none that was meant. */
function withSuggestion(text: string, { options }: Commander): string {
  const [, unknown] = /unknown option '(--[^'=]+)/.exec(text) ?? [];
  if (unknown === undefined || text.includes('Did you mean')) return text;
  const known = options.flatMap(({ long }) => long ?? []);
  const meant = formatSuggestion(suggest(unknown, known));
  return `${text.trimEnd()}.${meant}\n`.replace(/\.\n/, '\n');
}

/** Prose is wrapped; an example stays whole, with what it does below it where both do not fit. */
function formatMore({ details = '', examples }: Command, help: Help, columns: number): string {
  const width = Math.max(...examples.map(([line]) => line.length));
  const rows = examples.map(([line, what]) => `  ${line.padEnd(width)}  ${what}`);
  const lines = rows.every((row) => row.length <= columns)
    ? rows
    : examples.map(([line, what]) => `  ${line}\n      ${what}`);
  const prose = details === '' ? '' : `${help.boxWrap(details.replaceAll(/\n(?=\S)/g, ' '), columns)}\n\n`;
  return `\n${prose}Examples:\n${lines.join('\n')}\n\nOptions of every command: savestate --help`;
}
