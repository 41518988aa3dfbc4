import { join } from 'node:path';
import { expect, test } from 'vitest';
import { COMMANDS } from '../../src/cli/command-table.ts';
import { CheckpointManager } from '../../src/manager/checkpoint-manager.ts';
import { SqliteCheckpointStorage } from '../../src/storage/sqlite/sqlite-storage.ts';
import { json, ok, run } from './support/cli.ts';
import { CHAT, DATABASE, sharedChat } from './support/fixture.ts';

const chat = sharedChat();

/** What a command needs to get as far as its session; others need nothing. */
const WORDS: Readonly<Record<string, string>> = {
  'restore-backup': 'backup.db',
  backup: 'backup.db',
  bisect: 'run --where true',
  blame: '$.tone',
  completion: 'bash',
  copy: '--to copy.db',
  forget: '--user user_1 --dry-run',
  grep: 'refund',
  import: 'chat.jsonl',
  key: 'list',
  langgraph: 'import a.db --to b.db',
  memory: 'list',
  prune: '--keep-last 1 --dry-run',
  redact: '--pattern refund --dry-run',
  resume: '@',
  rewind: '@~1',
  switch: 'main',
  trial: '@ --judge-text km',
  workflow: 'check flow.yaml',
};

/** These begin the session that is named, wait for it, or pass every word on. */
const MAY_BE_NEW = ['run', 'repl', 'follow', 'complete'];

test.each(COMMANDS.map(({ name }) => name).filter((name) => !MAY_BE_NEW.includes(name)))(
  '[cli.1] %s does not ignore --session',
  async (name) => {
    const { folder } = await chat.copy();
    const words = WORDS[name]?.split(' ') ?? [];
    const { code, stderr } = await run([name, ...words, '--session', 'nope'], { folder });
    expect({ code, stderr }).toEqual({
      code: expect.toSatisfy((each) => each === 2 || each === 13),
      stderr: expect.stringMatching(/[Ss]ession "nope"|--session/),
    });
  },
);

test.each(['follow --all', `drift ${CHAT}`, 'forget --whole-session other --yes'])(
  '[cli.1] %s is refused beside another --session',
  async (line) => {
    const { folder } = await chat.copy();
    const { code, stderr } = await run([...line.split(' '), '-s', CHAT], { folder });
    expect([code, stderr]).toEqual([2, expect.stringContaining('--session')]);
  },
);

test('[cli.11] undo with --session takes back changes of that session only', async () => {
  const { folder } = await chat.copy();
  await ok(['tag', 'mine', '-s', 'other'], { folder });
  await ok(['fork', '-s', CHAT, '--branch', 'q1'], { folder });
  expect(await json('undo', ['-s', 'other'], { folder })).toMatchObject({ sessionId: 'other', isUndone: true });
  const refused = await run(['undo', '-s', 'other'], { folder });
  expect([refused.code, refused.stderr]).toEqual([
    13,
    expect.stringMatching(/nothing to undo in session "other".*session "support-42"/),
  ]);
  const [{ id = '' } = {}] = (await json('undo', ['--list', '-s', CHAT], { folder })) as { id: string }[];
  expect(await json('undo', ['--list', '-s', 'other'], { folder })).toHaveLength(1);
  const foreign = await run(['undo', id, '-s', 'other'], { folder });
  expect([foreign.code, foreign.stderr]).toEqual([13, expect.stringContaining('session "support-42"')]);
  expect(await json('undo', ['-s', CHAT], { folder })).toMatchObject({ id, isUndone: true });
});

test('[cli.1] a session that was begun and never saved is not suggested in place of itself', async () => {
  const { folder } = await chat.copy();
  const storage = new SqliteCheckpointStorage({ path: join(folder, DATABASE) });
  const session = await new CheckpointManager({ storage }).session('begun');
  await (await session.lease()).release();
  await storage.close();
  const { code, stderr } = await run(['continue', '--session', 'begun'], { folder });
  expect([code, stderr]).toEqual([
    13,
    expect.stringContaining('There is no session "begun" in this storage. There are: '),
  ]);
  expect(stderr.match(/"begun"/g)).toHaveLength(1);
});
