import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { messageOf } from '../../../core/errors.ts';
import { Workers } from '../../../manager/workers/workers.ts';
import { readManifest } from '../../../server/http/package-folder.ts';
import { type Command, type Context, EXIT } from '../../base/command.ts';
import { type Address, addressExists, formatAddress } from '../../place/address.ts';
import { readConfigured, resolveFile } from '../../place/read-text.ts';
import { formatCount } from '../../terminal/format.ts';

type Status = 'ok' | 'note' | 'warning' | 'failed';
type Check = { readonly name: string; readonly status: Status; readonly message: string };

const MIN_NODE = [20, 19] as const;

/** Finds out what is wrong with an installation. */
export const command: Command = {
  options: [['--load', 'also load the code of the team, which runs the top level of its modules']],
  details: 'Only reads, and runs no code of the folder unless you pass --load.',
  examples: [
    ['savestate doctor', 'what works here, and what does not'],
    ['savestate doctor --load', 'the code of the team, too'],
  ],
  run: async (context, input) => {
    const checks: Check[] = [];
    const team = input.flag('load') ? loadTeam : checkTeam;
    for (const [name, check] of [...CHECKS, ['team', team] as const])
      checks.push(await attempt(name, () => check(context)));
    const isHealthy = checks.every(({ status }) => status !== 'failed');
    const { style } = context.terminal;
    const paint = { ok: style.green, note: style.cyan, warning: style.yellow, failed: style.red };
    await context.answer({ isHealthy, checks }, () =>
      checks.map(({ name, status, message }) => `${paint[status](status.padEnd(7))}  ${name}: ${message}\n`).join(''),
    );
    return isHealthy ? undefined : EXIT.failed;
  },
};

type Finding = string | { readonly warning: string } | { readonly note: string };

const CHECKS: readonly (readonly [name: string, check: (context: Context) => Promise<Finding>])[] = [
  ['node', checkNode],
  ['sqlite', checkSqlite],
  ['packages', checkPackages],
  ['configuration', checkConfig],
  ['storage', checkStorage],
  ['content', checkContent],
];

async function attempt(name: string, check: () => Promise<Finding>): Promise<Check> {
  try {
    const found = await check();
    if (typeof found === 'string') return { name, status: 'ok', message: found };
    if ('note' in found) return { name, status: 'note', message: found.note };
    return { name, status: 'warning', message: found.warning };
  } catch (error) {
    return { name, status: 'failed', message: messageOf(error) };
  }
}

async function checkNode(): Promise<Finding> {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  const isEnough = major > MIN_NODE[0] || (major === MIN_NODE[0] && minor >= MIN_NODE[1]);
  return isEnough
    ? `version ${process.versions.node}`
    : { warning: `version ${process.versions.node}; at least ${MIN_NODE.join('.')} is needed` };
}

const SQLITE_PACKAGE = '@photostructure/sqlite';

async function checkSqlite({ folder }: Context): Promise<Finding> {
  const { checkSqliteVersion, openDatabase, sqliteModuleName } = await import(
    '../../../storage/database/sqlite-driver.ts'
  );
  const database = openDatabase(':memory:');
  try {
    const version = checkSqliteVersion(database);
    const isBuiltIn = sqliteModuleName() === 'node:sqlite';
    return `version ${version}, by ${isBuiltIn ? 'node:sqlite' : `${SQLITE_PACKAGE} ${findVersion(SQLITE_PACKAGE, folder)}`}`;
  } finally {
    database.close();
  }
}

/** What may be installed beside this package, and which version of it a program here would get. */
async function checkPackages({ folder }: Context): Promise<Finding> {
  const versions = Object.keys(readManifest().peerDependencies).map((name) => `${name} ${findVersion(name, folder)}`);
  return versions.join(', ');
}

function findVersion(name: string, folder: string): string {
  const below = createRequire(join(folder, 'package.json')).resolve.paths(name) ?? [];
  const beside = createRequire(import.meta.url).resolve.paths(name) ?? [];
  const found = [...below, ...beside]
    .map((path) => join(path, name))
    .find((path) => existsSync(join(path, 'package.json')));
  return found === undefined ? 'is not installed' : readManifest(found).version;
}

async function checkConfig(context: Context): Promise<Finding> {
  const found = await context.config();
  return found === undefined ? 'no savestate.yaml here or above, so the defaults hold' : found.path;
}

async function checkStorage(context: Context): Promise<Finding> {
  const address = await context.address();
  if (isNotMadeYet(context, address))
    return { note: `${formatAddress(address)} is not made yet; "savestate run" or "savestate init" makes it` };
  const { storage } = await context.open();
  await storage.stats();
  return `${formatAddress(address)} can be opened`;
}

/** A new project has no storage; one that was named just now and is not there is a mistake. */
function isNotMadeYet({ globals, env }: Context, address: Address): boolean {
  return !(globals.storage || env.SAVESTATE_STORAGE) && !addressExists(address);
}

async function checkContent(context: Context): Promise<Finding> {
  if (isNotMadeYet(context, await context.address())) return { note: 'nothing yet' };
  const { manager } = await context.open();
  const { checkpoints, sessions } = await manager.stats();
  const latest = await manager.latest();
  const last = latest === undefined ? '' : `, the last one saved ${latest.timestamp.toISOString()}`;
  const abandoned = (await new Workers(manager).abandoned({ limit: 100 })).map(({ sessionId }) => sessionId);
  if (abandoned.length > 0) return { warning: `left behind by processes that died: ${abandoned.join(', ')}` };
  return `${formatCount(checkpoints, 'checkpoint')} of ${formatCount(sessions, 'session')}${last}`;
}

const NO_TEAM = 'none is named, so "savestate run" needs --team';

/** What can be said of a team without its code. */
async function checkTeam(context: Context): Promise<Finding> {
  const { path = '', config: { team } = {} } = (await context.config()) ?? {};
  if (team === undefined) return NO_TEAM;
  const file = resolveFile(dirname(path), team);
  if (!/\.ya?ml$/.test(file)) return { note: `${team} is code, which "savestate doctor --load" loads and checks` };
  const { parseTeam } = await import('../../../runtime/chat/team-config.ts');
  const { agents } = parseTeam(readConfigured(file, 'team file'), { source: file });
  const names = agents.map(({ name }) => name).join(', ');
  return { note: `a chat of ${names}; its code is loaded and checked with "savestate doctor --load"` };
}

async function loadTeam(context: Context): Promise<Finding> {
  if ((await context.config())?.config.team === undefined) return NO_TEAM;
  const { openTeam } = await import('../../team/open-team.ts');
  const { kind, create } = await openTeam(context, { allowsCode: true }); // it is only made, nothing is run
  const names = create().agents.map(({ name }) => name);
  return `a ${kind} of ${names.join(', ')}`;
}
