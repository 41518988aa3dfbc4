import { once } from 'node:events';
import { basename } from 'node:path';
import { withoutUndefined } from '../../core/defined.ts';
import { InvalidInputError } from '../../core/errors.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { Memory } from '../../memory/memory.ts';
import type { ServedTeam, TeamRequest, TeamStop } from '../../server/handlers/team-runs.ts';
import type { Listening } from '../../server/server.ts';
import { formatStorageAddress, type StorageAddress } from '../../storage/open/address.ts';
import type { Context, OptionRow } from '../base/command.ts';
import { type CommandInput, flagOf } from '../base/command-input.ts';
import type { Talk } from '../team/talk.ts';
import { TALK_OPTIONS } from '../team/talk-options.ts';

/** What is only for a team that is run from the page. */
const TEAM_ONLY = ['registry', 'allowCode', 'onDifference', 'user', 'logs'];

/** Options of commands whose page may run a team. Only the flag allows it: no file and nothing stored does. */
const SERVED_TEAM_OPTIONS: readonly OptionRow[] = TALK_OPTIONS.filter(([flag]) => !flag.startsWith('--memory')).map(
  ([flag, words, ...rest]) =>
    flag.startsWith('--team') ? [flag, 'let the page run this team: a team.yaml, or a module'] : [flag, words, ...rest],
);

/** The team that --team names, and how to end; undefined if none is named. */
async function openServedTeam(
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

/** What both commands that serve take. */
export const SERVER_OPTIONS: readonly OptionRow[] = [
  ['--port <number>', 'default: a free one'],
  ['--host <address>', 'listen on this address instead of 127.0.0.1'],
  ['--allow-host <name>', 'a host name of the server, besides localhost', 'repeat'],
  ['--cors <origin>', 'allow pages of this origin, with the token', 'repeat'],
  ['--read-only', 'refuse all changes'],
  ['--mcp', 'also serve MCP, at /mcp'],
  ['--allow-changes', 'let models make changes, too'],
  ['--memory <place>', 'long-term memory: a file, or postgres://...'],
  ...SERVED_TEAM_OPTIONS,
];

/** Serves a storage until the person stops it; `onListening` gets the address. */
export async function serve(
  given: Context,
  input: CommandInput,
  onListening: (listening: Listening) => Promise<void>,
): Promise<undefined> {
  const context = withStorage(given, input.word(0));
  const address = await context.addressHere(
    'Start this where the storage is; the page of a server is at its own address.',
  );
  const [{ createServer }, { findMemory }] = await Promise.all([
    import('../../server/server.ts'),
    import('../memory/open-memory.ts'),
  ]);
  const { manager } = await context.open();
  const served = await openServedTeam(context, input);
  const memory = await findMemory(context, { named: input.text('memory'), manager });
  const mcp = await openMcp(input, manager, memory);
  const server = createServer(manager, {
    ...withoutUndefined({ token: context.env.SAVESTATE_TOKEN || undefined, memory, mcp, team: served?.team }),
    readOnly: input.flag('readOnly'),
    hosts: input.texts('allowHost'),
    origins: input.texts('cors'),
    ...nameStorage(address),
    onError: (error) => context.say(`error: ${error instanceof Error ? error.message : String(error)}`),
  });
  try {
    const listening = await server.listen({ host: input.text('host'), port: readPort(input) });
    const { url, accessUrl, port, warnings } = listening;
    for (const warning of warnings) context.say(`warning: ${warning}`);
    context.answerLine({ url, accessUrl, port, token: server.token }, () => `${accessUrl}\n`);
    context.say('Press Ctrl-C to stop.');
    await onListening(listening);
    if (!context.signal.aborted) await once(context.signal, 'abort');
  } finally {
    await server.close();
    await served?.close();
    await memory?.close();
  }
  return undefined;
}

/** How the page calls the storage; no other process can open one in memory. */
function nameStorage(address: StorageAddress) {
  const text = formatStorageAddress(address);
  return address.kind === 'memory' ? { label: text } : { address: text };
}

/** The storage that was named beside the command, as if it were an option. */
export function withStorage(context: Context, storage: string | undefined): Context {
  if (storage === undefined) return context;
  if (context.globals.storage !== undefined)
    throw new InvalidInputError(`Name the storage once: "${storage}", or --storage ${context.globals.storage}.`);
  return context.with({ globals: { ...context.globals, storage } });
}

/** What answers models, if it was asked for. */
async function openMcp(input: CommandInput, manager: CheckpointManager, memory: Memory | undefined) {
  const allowChanges = input.flag('allowChanges');
  if (!input.flag('mcp') && allowChanges)
    throw new InvalidInputError('--allow-changes is about models: it goes with --mcp.');
  if (!input.flag('mcp')) return undefined;
  if (allowChanges && input.flag('readOnly'))
    throw new InvalidInputError('--read-only and --allow-changes contradict each other: pass one of them.');
  const { createMcp } = await import('../../server/mcp/mcp-server.ts');
  return (await createMcp(manager, { memory, allowChanges })).fetch;
}

function readPort(input: CommandInput): number | undefined {
  const port = input.count('port');
  if (port !== undefined && port > 65_535) throw new InvalidInputError(`--port must be at most 65535; found ${port}.`);
  return port;
}
