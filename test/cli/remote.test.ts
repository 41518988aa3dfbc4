import { rmSync, writeFileSync } from 'node:fs';
import { createServer as createHttp } from 'node:http';
import { type AddressInfo, createServer as createTcp } from 'node:net';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { CheckpointManager } from '../../src/manager/checkpoint-manager.ts';
import { Memory } from '../../src/memory/memory.ts';
import type { ServerOptions } from '../../src/server/server-options.ts';
import { SqliteCheckpointStorage } from '../../src/storage/sqlite/sqlite-storage.ts';
import { few } from '../support/later.ts';
import { startServer } from '../support/server.ts';
import { ok, type Ran, run } from './support/cli.ts';
import { DATABASE, sharedChat } from './support/fixture.ts';
import { newFolder } from './support/folder.ts';

const chat = sharedChat();

/** A server over a copy of the chat, and how a command is run against it from an empty folder. */
async function serveChat(options: ServerOptions = {}) {
  const { folder } = await chat.copy();
  const storage = new SqliteCheckpointStorage({ path: join(folder, DATABASE), durability: 'process' });
  const { url, token } = await startServer({ storage, ...options });
  const elsewhere = newFolder();
  const remotely = (args: readonly string[]): Promise<Ran> =>
    run([...args, '--remote', url], { folder: elsewhere, env: { SAVESTATE_TOKEN: token } });
  return { folder, elsewhere, url, token, remotely };
}

/** What commands say, without what differs between two runs of the same one. */
const plain = ({ code, stdout, stderr }: Ran) => ({
  code,
  stdout: withoutPlace(stdout),
  stderr: withoutPlace(stderr),
});
/** The memory of a server is not at hand, and both say so in their own words. */
const withoutPlace = (text: string) =>
  text
    .replaceAll(/^(?:No long-term memory was found|The long-term memory of the server).*\n/gm, '<memory>\n')
    .replaceAll(/(sqlite:|https?:)[^\s"]+/g, '<storage>')
    .replaceAll(' --remote <storage>', '')
    .replaceAll(/chk_\w+/g, 'chk_')
    .replaceAll(/20[2-9]\d-\d\d-\d\d[T ][\d:.]+Z?/g, '<time>');

const LOOKS: readonly (readonly string[])[] = [
  ['sessions'],
  ['log'],
  ['log', '--graph'],
  ['log', '--json', '--all', '--where', 'metadata.round > 3'],
  ['log', '-s', 'nobody'],
  ['show'],
  ['show', '@~2:messages[0]'],
  ['show', 'nowhere'],
  ['diff'],
  ['diff', 'v1', 'what-if', '--json'],
  ['blame', '$.messages', 'v1'],
  ['grep', 'refund'],
  ['grep', 'not there'],
  ['drift'],
  ['stats'],
  ['branch'],
  ['tag'],
  ['verify', '--read-data'],
  ['export'],
  ['export', 'v1'],
  ['prune', '--keep-last', '2', '--dry-run'],
];

test('[cli.1] with --remote every command that looks says what it says with the storage at hand', async () => {
  const { folder, remotely } = await serveChat({ readOnly: true });
  for (const args of few(LOOKS, { from: 2, count: 6 })) {
    const [here, there] = [await run(args, { folder }), await remotely(args)];
    expect([args, plain(there)]).toEqual([args, plain(here)]);
    expect([args, here.code]).toEqual([args, /nobody|nowhere|not there/.test(args.join()) ? 13 : 0]);
    expect(there.stdout.match(/chk_\w+/g)).toEqual(here.stdout.match(/chk_\w+/g));
  }
});

const TEAM = join(import.meta.dirname, '../../examples/team/team.yaml');
const TAKEN = ['fork', 'v1', '--branch', 'warm'];
const MOVES: readonly (readonly string[])[] = [
  ['run', '--team', TEAM, '--session', 'trip', '-n', '2', 'Plan a day in Lisbon'],
  ['continue', '--team', TEAM, '--session', 'trip', '-n', '1'],
  ['forget', '--whole-session', 'trip', '--yes'],
  ['fork', 'v1', '--branch', 'warm', '--set', 'tone="warm"', '--reason', 'to see'],
  TAKEN,
  ['rewind', '@~2'],
  ['undo'],
  ['switch', 'what-if'],
  ['switch', 'main'],
  ['tag', 'v2', '@~1'],
  ['tag', '-d', 'v1'],
  ['branch', 'late', '@~1'],
  ['branch', '-d', 'late'],
  ['redact', '--path', '$.plan', '--yes'],
  ['forget', '--whole-session', 'other', '--yes'],
  ['import', 'session.jsonl'],
  ['forget', '--user', 'user_2', '--yes'],
  ['prune', '--keep-last', '2', '--yes'],
  ['gc'],
  ['verify', '--read-data'],
  ['branch'],
  ['tag'],
  ['log', '--all', '--oneline'],
];

test('[cli.1] what a command changes through a server is what it changes at hand', async () => {
  const here = await chat.copy();
  const { folder, elsewhere, remotely } = await serveChat();
  const exported = await ok(['export', '-s', 'other'], { folder });
  for (const each of [here.folder, elsewhere]) writeFileSync(join(each, 'session.jsonl'), exported);
  for (const args of few(MOVES, { from: 3, count: 7 })) {
    const local = await run(args, { folder: here.folder });
    expect([args, plain(await remotely(args))]).toEqual([args, plain(local)]);
    expect([args, local.code]).toEqual([args, args === TAKEN ? 14 : 0]);
  }
});

test('[cli.1] a read-only server refuses changes in its own words', async () => {
  const { remotely } = await serveChat({ readOnly: true });
  for (const args of [['tag', 'v2'], ['rewind', '@~1'], ['gc']]) {
    const { code, stderr } = await remotely(args);
    expect([code, stderr]).toEqual([15, 'error: This server is read-only: it was started with --read-only.\n']);
  }
});

test('[cli.1] the token comes from the fragment, a file or the environment, and is never shown', async () => {
  const { url, token, elsewhere: folder } = await serveChat();
  writeFileSync(join(folder, 'token.txt'), `${token}\n`);
  const address = `${url}/#token=${token}`;
  const ways: [args: string[], env: Record<string, string>][] = [
    [['--remote', address], {}],
    [['--remote', address], { SAVESTATE_TOKEN: 'another' }],
    [['--remote', url, '--token-file', 'token.txt'], { SAVESTATE_TOKEN: 'another' }],
    [['--storage', address], {}],
    [[], { SAVESTATE_STORAGE: address }],
  ];
  for (const [args, env] of ways)
    for (const name of ['stats', 'doctor', 'config']) {
      const { code, stdout, stderr } = await run([name, ...args], { folder, env });
      expect([args, code, stdout.includes(url)]).toEqual([args, 0, true]);
      expect(stdout + stderr).not.toContain(token);
    }
  const ran = await run(['run', '--remote', address, '--team', TEAM, '-n', '1', 'Plan a day'], { folder });
  expect(ran.stdout).toMatch(/savestate continue --session \S+ --remote /);
  expect(ran.stdout).toContain(`--remote ${url} --team`);
  expect(ran.stdout + ran.stderr).not.toContain(token);
  const wrong: [args: string[], code: number, said: string][] = [
    [['--remote', url], 2, 'needs one. Set SAVESTATE_TOKEN'],
    [['--remote', `${url}/#token=guess-guess-guess`], 2, 'does not know this token'],
    [['--remote', `${url}/#${token}`], 2, 'only #token=<token> may stand'],
    [['--remote', `http://me:${token}@127.0.0.1`], 2, 'only #token=<token> may stand'],
    [['--remote', `127.0.0.1/#token=${token}`], 2, 'named with --storage'],
    [['--remote', url, '--storage', 'agent.db'], 2, 'Name the storage once'],
    [['--remote', url, '--token-file', 'nowhere.txt'], 13, 'nowhere.txt cannot be read'],
  ];
  for (const [args, code, said] of wrong) {
    const refused = await run(['log', ...args], { folder });
    expect([args, refused.code]).toEqual([args, code]);
    expect(refused.stderr).toContain(said);
    expect(refused.stderr).not.toContain(token);
  }
  writeFileSync(join(folder, 'savestate.yaml'), `storage: ${address}\n`);
  const configured = await run(['config'], { folder });
  expect([configured.code, configured.stderr]).toEqual([2, expect.stringContaining('Set SAVESTATE_TOKEN')]);
  expect(configured.stderr).not.toContain(token);
});

test('[cli.1] the token of the environment goes to no server that only a file of the folder names', async () => {
  const { url, token, elsewhere: folder } = await serveChat();
  const seen: (string | undefined)[] = [];
  const stranger = createHttp(({ headers }, response) => {
    seen.push(headers.authorization);
    response.writeHead(404).end();
  });
  onTestFinished(() => void stranger.close());
  await new Promise<void>((resolve) => stranger.listen(0, '127.0.0.1', resolve));
  const theirs = `http://127.0.0.1:${(stranger.address() as AddressInfo).port}`;
  const env = { SAVESTATE_TOKEN: token };
  writeFileSync(join(folder, 'savestate.yaml'), `storage: ${theirs}\n`);
  for (const name of ['log', 'show', 'verify', 'sessions', 'doctor', 'memory list', 'copy --to there.db']) {
    const { code, stdout, stderr } = await run(name.split(' '), { folder, env });
    expect([name, code === 0, stdout + stderr]).toEqual([name, false, expect.stringContaining(`--remote ${theirs}`)]);
  }
  expect(seen).toEqual([]);
  expect((await run(['config'], { folder, env })).stdout).toContain(`the storage is ${theirs}`);

  writeFileSync(join(folder, 'savestate.yaml'), `storage: ${url}\n`);
  writeFileSync(join(folder, 'token.txt'), token);
  expect((await run(['log', '--token-file', 'token.txt'], { folder })).code).toBe(0);
  expect((await run(['log', '--remote', url], { folder, env })).code).toBe(0);
  expect((await run(['log'], { folder, env: { ...env, SAVESTATE_STORAGE: url } })).code).toBe(0);
});

test('[cli.1] the password of the environment goes to no PostgreSQL server that only a file of the folder names', async () => {
  const folder = newFolder();
  const heard: Buffer[] = [];
  const stranger = createTcp((socket) => {
    socket.on('data', (data: Buffer) => {
      heard.push(data);
      // Asks for the password in the clear, then hangs up.
      if (data.includes('user')) socket.write(Buffer.from([0x52, 0, 0, 0, 8, 0, 0, 0, 3]));
      else socket.destroy();
    });
    socket.on('error', () => undefined);
  });
  onTestFinished(() => void stranger.close());
  await new Promise<void>((resolve) => stranger.listen(0, '127.0.0.1', resolve));
  const port = String((stranger.address() as AddressInfo).port);
  const theirs = `postgres://me@127.0.0.1:${port}/app`;
  const env = { PGPASSWORD: 'my-password' };
  const files = {
    'savestate.yaml': `storage: ${theirs}\n`,
    'workflow.yaml': `workflow:\n  checkpointing:\n    storage_type: postgres\n    storage_url: ${theirs}\n`,
  };
  for (const [name, text] of Object.entries(files)) {
    rmSync(join(folder, 'savestate.yaml'), { force: true });
    writeFileSync(join(folder, name), text);
    for (const command of ['log', 'verify', 'copy --to there.db']) {
      const { code, stderr } = await run(command.split(' '), { folder, env });
      expect([command, code, stderr]).toEqual([command, 2, expect.stringContaining('set PGHOST and PGPORT')]);
    }
  }
  rmSync(join(folder, 'workflow.yaml'));
  writeFileSync(join(folder, 'savestate.yaml'), `memory: ${theirs}\n`);
  expect((await run(['memory', 'list', '--user', 'u'], { folder, env })).code).toBe(2);
  // Another host behind the ?, which would count.
  writeFileSync(join(folder, 'savestate.yaml'), `storage: ${theirs}?host=localhost\n`);
  expect((await run(['log'], { folder, env: { ...env, PGHOST: '127.0.0.1', PGPORT: port } })).code).toBe(2);
  expect(heard).toEqual([]);

  writeFileSync(join(folder, 'savestate.yaml'), `storage: ${theirs}\n`);
  expect((await run(['config'], { folder, env })).stdout).toContain(`the storage is ${theirs}`);
  await run(['log'], { folder, env: { ...env, PGHOST: '127.0.0.1', PGPORT: port } });
  expect(Buffer.concat(heard).toString()).toContain('my-password');
});

test('[cli.1] a server that is gone, is none, is older or speaks another protocol is named', async () => {
  const answer = (status: number, text: string) =>
    createHttp((_, response) => response.writeHead(status, { 'content-type': 'application/json' }).end(text));
  const listen = async (server: ReturnType<typeof createHttp>) => {
    onTestFinished(() => void server.close());
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return `127.0.0.1:${(server.address() as AddressInfo).port}`;
  };
  const older = JSON.stringify({ version: '0.0.9', kind: 'sqlite', storage: 'sqlite', isReadOnly: false });
  const cases: [url: string, code: number, said: string][] = [
    ['http://127.0.0.1:1', 10, 'cannot be reached'],
    [`http://${await listen(answer(404, '{}'))}`, 10, 'status 404'],
    [`http://${await listen(answer(200, '{}'))}`, 10, 'There is no Savestate server at'],
    [`http://${await listen(answer(200, older))}`, 15, 'has version 0.0.9'],
    [`https://${await listen(answer(200, '{}'))}`, 10, 'write http:// then'],
  ];
  for (const [url, code, said] of cases) {
    const refused = await run(['log', '--remote', url]);
    expect([said, refused.code, refused.stderr]).toEqual([said, code, expect.stringContaining(said)]);
  }
});

test('[cli.1] what needs the storage at hand says what to do instead', async () => {
  const { url, elsewhere: folder } = await serveChat();
  for (const [args, said] of [
    [['serve'], 'Start this where the storage is'],
    [['studio'], 'Start this where the storage is'],
    [['init'], 'Name the server in savestate.yaml instead'],
  ] as const) {
    const { code, stderr } = await run([...args, '--remote', url], { folder });
    expect([args, code, stderr]).toEqual([args, 15, expect.stringContaining(said)]);
  }
});

test('[cli.28] the memory of a server is listed, searched and explained as one at hand; it is forgotten there only', async () => {
  const path = join(newFolder(), 'mem.db');
  const storage = new SqliteCheckpointStorage({ path: join((await chat.copy()).folder, DATABASE) });
  const manager = new CheckpointManager({ storage });
  const memory = new Memory({ path, manager });
  onTestFinished(() => memory.close().then(() => manager.close()));
  const { results } = await memory.add('I live in Lisbon. I prefer short walks.', { userId: 'ann' });
  const { folder, remotely } = await serveChat({ memory });
  const looks = [
    ['list'],
    ['list', '--json', '--kind', 'fact', '--kind', 'preference', '-n', '1'],
    ['list', '--kind', 'facts'],
    ['list', '--user', 'bob', '--all'],
    ['search', 'Where', 'does she live?'],
    ['search', 'Where does she live?', '--as-of', '@'],
    ['search', 'prices', '--user', 'bob'],
    ['why', results[0]?.id ?? ''],
    ['why', results[0]?.id ?? '', '--json'],
    ['why', 'mem_0k3v9r2m5x7q1d'],
  ];
  for (const look of looks) {
    const here = await run(['memory', ...look, '--memory', path], { folder });
    const there = await remotely(['memory', ...look]);
    expect([look, there]).toEqual([look, here]);
  }
  const refused = await remotely(['memory', 'forget', '--user', 'ann', '--yes']);
  expect([refused.code, refused.stderr]).toEqual([15, expect.stringContaining('where the memory is')]);
  const none = await (await serveChat()).remotely(['memory', 'list']);
  expect([none.code, none.stderr]).toEqual([15, expect.stringContaining('has no long-term memory')]);
});
