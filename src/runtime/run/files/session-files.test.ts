import {
  copyFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { LATER } from '../../../../test/support/later.ts';
import { temporaryFolder } from '../../../../test/support/storages.ts';
import { createTeam } from '../../../../test/support/team.ts';
import { CheckpointManager } from '../../../manager/checkpoint-manager.ts';
import { InMemoryCheckpointStorage } from '../../../storage/memory/memory-storage.ts';
import { scriptedModel } from '../../../testing/model/scripted-model.ts';
import { StandardAgent } from '../../agent/standard-agent.ts';
import { defineTool } from '../../agent/tool.ts';
import { CheckpointRestorer } from '../../chat/checkpoint-restorer.ts';
import { CheckpointingGroupChatManager } from '../../chat/checkpointing-group-chat-manager.ts';
import { GroupChat } from '../../chat/group-chat.ts';
import type { MetadataEntry } from './file-forms.ts';
import { createUniqueFolder, formatStamp } from './session-folder.ts';

function open() {
  return new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
}

function hold(manager: CheckpointManager, logs: string, sessionId = 'team') {
  const { chat } = createTeam({ maxRounds: 3, end: { signals: ['I have seen'] } });
  return new CheckpointingGroupChatManager({ chat, manager, sessionId, logs });
}

function readJson(...path: string[]) {
  return JSON.parse(readFileSync(join(...path), 'utf8'));
}

test('[run.11] a session writes its files beside the storage, up to date at every checkpoint', async () => {
  const logs = join(temporaryFolder(), 'logs');
  const { folder = '', fileProblems } = await hold(open(), logs).run({ message: 'Count.' });
  expect(fileProblems).toEqual([]);
  expect(folder).toMatch(/session_\d{8}_\d{6}$/);
  expect(readdirSync(folder).sort()).toEqual([
    'chat_history.json',
    'checkpoints',
    'checkpoints_metadata.json',
    'console.log',
    'problem_statement.txt',
    'session_metadata.json',
  ]);
  const { checkpoints, checkpoint_count } = readJson(folder, 'checkpoints_metadata.json');
  expect(checkpoint_count).toBe(7);
  expect(checkpoints.map(({ trigger }: MetadataEntry) => trigger).slice(-2)).toEqual([
    'message_appended',
    'conversation_end',
  ]);
  expect(checkpoints.at(-1)).toMatchObject({ end_reason: 'signal', signal: 'I have seen' });
  for (const { file } of checkpoints) expect(file).toMatch(/^checkpoints\/checkpoint_\d+_[a-z_]+_\d{8}_\d{6}\.json$/);
  expect(readJson(folder, 'chat_history.json').messages.map(({ name }: { name: string }) => name)).toEqual([
    'user',
    'solver',
    'critic',
  ]);
  expect(readFileSync(join(folder, 'problem_statement.txt'), 'utf8')).toBe('Count.\n');
  expect(readJson(folder, 'session_metadata.json')).toMatchObject({
    session_id: 'team',
    agents: [{ name: 'solver', tools: ['square'], model: 'scripted-team' }, { class: 'CountingAgent' }],
  });
  expect(readFileSync(join(folder, 'console.log'), 'utf8').trimEnd().split('\n').length).toBe(8);
});

test('[run.12] files that a killed run did not write are written when it is resumed', async () => {
  const logs = join(temporaryFolder(), 'logs');
  const manager = open();
  const { folder = '' } = await hold(manager, logs).run({ message: 'Count.' });
  const { checkpoints: entries } = readJson(folder, 'checkpoints_metadata.json');
  const kept = entries.slice(0, 2);
  for (const { file } of entries.slice(2)) rmSync(join(folder, file));
  writeFileSync(join(folder, 'checkpoints_metadata.json'), JSON.stringify({ checkpoints: kept }));
  const { registry } = createTeam();
  const restorer = new CheckpointRestorer({ manager, registry });
  const resumed = await hold(manager, logs).resume();
  expect(resumed).toMatchObject({ status: 'ended', newMessages: 0, folder });
  expect(readJson(folder, 'checkpoints_metadata.json').checkpoints).toEqual(entries);
  for (const { file } of entries) {
    const { chat } = await restorer.restore({ file: join(folder, file) });
    expect(chat.record.problem).toBe('Count.');
  }
});

test('[run.12] a continuation has a folder of its own that names its origin', async () => {
  const logs = join(temporaryFolder(), 'logs');
  const manager = open();
  const { folder = '' } = await hold(manager, logs).run({ message: 'Count.' });
  const { file, checkpoint_id } = readJson(folder, 'checkpoints_metadata.json').checkpoints[1];
  const restorer = new CheckpointRestorer({ manager, registry: createTeam().registry });
  const byId = await restorer.continue(checkpoint_id, { rounds: 1, logs });
  const byFile = await restorer.continue({ file: join(folder, file) }, { rounds: 1, logs });
  for (const result of [byId, byFile]) {
    expect(result.folder).toMatch(/session_\d{8}_\d{6}\/continuation_\d{8}_\d{6}(_2)?$/);
    expect(readJson(result.folder ?? '', 'continuation_metadata.json')).toMatchObject({
      original_checkpoint_id: checkpoint_id,
      max_additional_rounds: 1,
      original_session_dir: folder,
    });
    // what was asked for, the reply, the message, the end
    expect(readdirSync(join(result.folder ?? '', 'checkpoints')).length).toBe(4);
  }
  const outputRoot = join(logs, 'elsewhere');
  const there = await restorer.continue(checkpoint_id, { rounds: 1, logs, outputRoot });
  expect(there.folder?.startsWith(join(outputRoot, 'continuation_'))).toBe(true);
});

test('[run.11] names stay unique within a second', async () => {
  const parent = join(temporaryFolder(), 'logs');
  const name = `session_${formatStamp(Date.UTC(2026, 10, 16, 3, 4, 5))}`;
  const made = await Promise.all([1, 2, 3].map(() => createUniqueFolder(parent, name)));
  expect(made.map((path) => path.slice(parent.length + 1)).sort()).toEqual([
    'session_20261116_030405',
    'session_20261116_030405_2',
    'session_20261116_030405_3',
  ]);
});

test('[run.11] files that cannot be written do not stop a run, and failures are in the error log', async () => {
  const logs = join(temporaryFolder(), 'logs');
  const manager = open();
  const { chat } = createTeam({ maxRounds: 2 }, [{ status: 400, message: 'no such model' }]);
  const broken = new CheckpointingGroupChatManager({ chat, manager, sessionId: 'broken', logs });
  const failed = await broken.run({ message: 'Count.' });
  expect(failed.status).toBe('failed');
  expect(readFileSync(join(failed.folder ?? '', 'error_log.txt'), 'utf8')).toContain('no such model');
  rmSync(join(failed.folder ?? '', 'console.log'));
  mkdirSync(join(failed.folder ?? '', 'console.log'));
  const team = createTeam({ maxRounds: 2 });
  const again = new CheckpointingGroupChatManager({ chat: team.chat, manager, sessionId: 'broken', logs });
  const resumed = await again.resume();
  expect(resumed).toMatchObject({
    status: 'ended',
    newMessages: 2,
    fileProblems: [{ code: 'EISDIR' }, {}, {}, {}, {}],
  });
});

test('[run.11] no file of a run that failed holds the secrets of its error, and no checkpoint does', async () => {
  const logs = join(temporaryFolder(), 'logs');
  const manager = open();
  const secrets = ['sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGH', 'correcthorse', 'abc123def456ghi789jkl012'];
  const [key, password, bearer] = secrets;
  const message = `401 for ${key} at postgres://bob:${password}@db/x, Authorization: Bearer ${bearer}`;
  const { chat } = createTeam({ maxRounds: 2 }, [{ status: 400, message }]);
  const failed = await new CheckpointingGroupChatManager({ chat, manager, sessionId: 'secret', logs }).run({
    message: 'Count.',
  });
  const folder = failed.folder ?? '';
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((file) => file.isFile());
  const texts = files.map((file) => readFileSync(join(file.parentPath, file.name), 'utf8'));
  const { checkpoints } = await manager.list({ sessionId: 'secret' });
  const all = [...texts, JSON.stringify(checkpoints)].join('\n');
  expect(readFileSync(join(folder, 'error_log.txt'), 'utf8')).toContain('401 for');
  expect(secrets.filter((secret) => all.includes(secret))).toEqual([]);
});

test('[run.11] without a folder to write to, a run writes the small files and no whole states', async () => {
  const cwd = process.cwd();
  process.chdir(temporaryFolder());
  try {
    const { chat } = createTeam({ maxRounds: 3, end: { signals: ['I have seen'] } });
    const run = new CheckpointingGroupChatManager({ chat, manager: open(), sessionId: 'team' });
    const { folder = '', fileProblems } = await run.run({ message: 'Count.' });
    expect(fileProblems).toEqual([]);
    expect(readdirSync(folder).sort()).toEqual([
      'chat_history.json',
      'checkpoints_metadata.json',
      'console.log',
      'problem_statement.txt',
      'session_metadata.json',
    ]);
    const { checkpoints } = readJson(folder, 'checkpoints_metadata.json');
    expect(new Set(checkpoints.map(({ file }: MetadataEntry) => file))).toEqual(new Set([null]));
  } finally {
    process.chdir(cwd);
  }
});

test('[run.11] the files of a long conversation grow with what is said, not with its square', LATER, async () => {
  const sizes = [];
  for (const maxRounds of [20, 40, 80]) {
    const logs = join(temporaryFolder(), 'logs');
    const agents = ['ann', 'bob'].map((name) => new StandardAgent({ name, defaultReply: 'Some words are said here.' }));
    const chat = new GroupChat({ agents, speakerSelection: 'round_robin', maxRounds });
    const options = { chat, manager: open(), sessionId: 'long', logs, checkpointFiles: false };
    const { folder = '' } = await new CheckpointingGroupChatManager(options).run({ message: 'Talk.' });
    expect(readJson(folder, 'chat_history.json')).toMatchObject({ rounds: maxRounds, end: { reason: 'max_rounds' } });
    sizes.push(readdirSync(folder).reduce((sum, name) => sum + statSync(join(folder, name)).size, 0));
  }
  const [small = 0, middle = 0, large = 0] = sizes;
  expect(large - middle).toBeLessThan(2.2 * (middle - small));
});

test('[run.11] tool calls and their results are in the conversation and the log, secrets are in no file', async () => {
  const secret = 'sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD';
  const tool = defineTool({
    name: 'weather',
    description: 'd',
    input: z.object({ city: z.string(), password: z.string() }),
    run: () => 21.5,
  });
  const model = scriptedModel(
    ({ messages }) =>
      messages.at(-1)?.role === 'tool'
        ? `It is warm, says ${secret}. TERMINATE`
        : { toolCalls: [{ name: 'weather', input: { city: 'Rome', password: 'open sesame' } }] },
    { id: 'm' },
  );
  const agents = [new StandardAgent({ name: 'ann', model, tools: [tool] }), new StandardAgent({ name: 'bob', model })];
  const chat = new GroupChat({ agents, speakerSelection: 'round_robin' });
  const logs = join(temporaryFolder(), 'logs');
  const run = new CheckpointingGroupChatManager({ chat, manager: open(), sessionId: 'tools', logs });
  const { folder = '' } = await run.run({ message: 'Is it warm?' });
  expect(readJson(folder, 'chat_history.json').messages[1]).toMatchObject({
    tool_calls: [{ name: 'weather', input: { city: 'Rome', password: '[secret password]' }, result: '21.5' }],
  });
  expect(readFileSync(join(folder, 'console.log'), 'utf8')).toContain(
    'tool_call weather({"city":"Rome","password":"[secret password]"}): 21.5',
  );
  for (const name of readdirSync(folder).filter((entry) => entry !== 'checkpoints'))
    for (const hidden of [secret, 'sesame']) expect(readFileSync(join(folder, name), 'utf8')).not.toContain(hidden);
});

test('[run.12] a list that a kill left cut off is written again from the storage', async () => {
  const logs = join(temporaryFolder(), 'logs');
  const manager = open();
  const { folder = '' } = await hold(manager, logs).run({ message: 'Count.' });
  const names = ['checkpoints_metadata.json', 'chat_history.json'];
  const [list, history] = names.map((name) => readJson(folder, name));
  for (const name of names) truncateSync(join(folder, name), 60);
  await hold(manager, logs).resume();
  expect(readJson(folder, 'chat_history.json')).toEqual(history);
  expect(readJson(folder, 'checkpoints_metadata.json').checkpoints).toEqual(list.checkpoints);
  expect(readFileSync(join(folder, 'console.log'), 'utf8').trimEnd().split('\n').length).toBe(8);
});

test('[run.12] a continuation from a file that lies in no session is written below logs', async () => {
  const root = temporaryFolder();
  const { folder = '' } = await hold(open(), join(root, 'first')).run({ message: 'Count.' });
  const { file } = readJson(folder, 'checkpoints_metadata.json').checkpoints[1];
  mkdirSync(join(root, 'home', 'downloads'), { recursive: true });
  const copy = join(root, 'home', 'downloads', 'one.json');
  copyFileSync(join(folder, file), copy);
  const restorer = new CheckpointRestorer({ manager: open(), registry: createTeam().registry });
  const more = await restorer.continue({ file: copy }, { rounds: 1, logs: join(root, 'mine') });
  expect(more.folder?.startsWith(join(root, 'mine', 'session_'))).toBe(true);
  expect([readdirSync(join(root, 'home')), readdirSync(join(root, 'home', 'downloads'))]).toEqual([
    ['downloads'],
    ['one.json'],
  ]);
});

test.each(['/proc/nope', '/proc/nope/deeper', '/dev/null/nope'])(
  '[run.11] a folder that cannot be made, such as %s, is reported and stops nothing',
  async (logs) => {
    const manager = open();
    const { status, fileProblems, checkpointId = '' } = await hold(manager, logs).run({ message: 'Count.' });
    expect([status, fileProblems?.length]).toEqual(['ended', 1]);
    const { registry } = createTeam();
    const restorer = new CheckpointRestorer({ manager, registry });
    const more = await restorer.continue(checkpointId, { rounds: 1, logs, stripSignal: true });
    expect([more.status, more.fileProblems?.length]).toEqual(['ended', 1]);
  },
);

test('[run.12] what a killed run left of files that it was writing is removed when it is resumed', async () => {
  const [manager, logs] = [open(), temporaryFolder()];
  const { folder = '' } = await hold(manager, logs).run({ message: 'Count.' });
  const left = ['chat_history.json.0badf00d.writing', join('checkpoints', 'checkpoint_1.json.0badf00d.writing')];
  for (const name of [...left, 'mine.writing']) writeFileSync(join(folder, name), '{');
  await hold(manager, logs).resume();
  const names = readdirSync(folder, { recursive: true }).map(String);
  expect(names.filter((name) => name.endsWith('.writing'))).toEqual(['mine.writing']);
});
