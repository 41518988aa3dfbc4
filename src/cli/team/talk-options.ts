import { InvalidInputError } from '../../core/errors.ts';
import type { OnDifference } from '../../manager/agent/agent-saving.ts';
import type { OptionRow } from '../base/command.ts';
import { type CommandInput, flagOf } from '../base/command-input.ts';

/** Replies of a team that goes on from a checkpoint. */
export const DEFAULT_ROUNDS = 5;

/** Lets agents run code: what a checkpoint or a team file says of it is only a request. */
export const ALLOW_CODE: OptionRow = [
  '--allow-code',
  'let agents run code in this folder and below, if they are configured to; default: only if a module allows it',
];

/** Options of every command that lets a team talk. */
export const TALK_OPTIONS: readonly OptionRow[] = [
  [
    '--team <file>',
    'a team.yaml, or a module that exports createTeam or createFleet; default: what savestate.yaml names',
  ],
  ['--registry <module>', 'the module with the code of the team or workflow; default: the one next to it'],
  ['--user <id>', 'whose conversation it is, for memory and for "forget --user", and who answers'],
  ['--memory <place>', 'long-term memory: a file, or postgres://...; default: what savestate.yaml names, else none'],
  ALLOW_CODE,
  [
    '--on-difference <what>',
    'if the team, or a started workflow step, has changed: fail, warn (use the checkpoint) or accept (use the code); default fail',
  ],
  ['--logs <folder>', 'chats: also write session files to this folder'],
];

/** The option of commands that go on with the run of a workflow. */
export const WORKFLOW_OPTION: OptionRow = [
  '--workflow <file>',
  'workflow: its file; default: the last one run here, or the one in savestate.yaml',
];

/** What is to be done about differences, if the person says so. */
export function readOnDifference(input: CommandInput): OnDifference | undefined {
  return input.oneOf('onDifference', ['fail', 'warn', 'accept']);
}

/** Reads answers of the form `id=text`. */
export function parseAnswers(texts: readonly string[]): Readonly<Record<string, string>> {
  return Object.fromEntries(texts.map((text) => splitPair(text, '--answer', 'id=text')));
}

/** The two sides of an option of the form `agent=value`. */
export function splitPair(text: string, option: string, form: string): readonly [name: string, value: string] {
  const at = text.indexOf('=');
  if (at > 0) return [text.slice(0, at), text.slice(at + 1)];
  throw new InvalidInputError(`${option} must be ${form}; found "${text}".`);
}

/** A name for a new session that sorts by time, and that people can read: `chat-20260131-080000`. */
export function newSessionName(kind: 'chat' | 'run'): string {
  return `${kind}-${new Date().toISOString().slice(0, 19).replaceAll(/[-:]/g, '').replace('T', '-')}`;
}

/** What runs: a group chat, a fleet, or a workflow. */
export type RunKind = 'chat' | 'fleet' | 'workflow';

const TEAMS: readonly RunKind[] = ['chat', 'fleet'];

/** Which kinds of runs an option is for; those that are not named are for all. */
const FOR_KINDS: Readonly<Record<string, readonly RunKind[]>> = {
  team: TEAMS,
  allowCode: TEAMS,
  memory: TEAMS,
  rounds: TEAMS,
  promptFile: TEAMS,
  prompt: TEAMS,
  mode: TEAMS,
  branch: TEAMS,
  reason: TEAMS,
  logs: ['chat'],
  stripSignal: ['chat'],
  restoreFiles: ['chat'],
  input: ['workflow'],
  workflow: ['workflow'],
};

const NOUNS: Readonly<Record<RunKind, string>> = { chat: 'group chat', fleet: 'fleet', workflow: 'workflow' };

/** Refuses options that this kind of run could only ignore. */
export function checkKind(input: CommandInput, kind: RunKind): void {
  const stray = Object.keys(FOR_KINDS).find((name) => input.has(name) && FOR_KINDS[name]?.includes(kind) === false);
  if (stray === undefined) return;
  const others = FOR_KINDS[stray]?.map((each) => `a ${NOUNS[each]}`).join(' or ');
  throw new InvalidInputError(`A ${NOUNS[kind]} has no ${flagOf(stray)}; that is for ${others}. Leave it out.`, {
    details: { option: flagOf(stray) },
  });
}
