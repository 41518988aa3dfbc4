import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { temporaryFolder } from '../../../test/support/storages.ts';
import { createTeam } from '../../../test/support/team.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory-storage.ts';
import { CheckpointRestorer } from '../chat/checkpoint-restorer.ts';
import { CheckpointingGroupChatManager } from '../chat/checkpointing-group-chat-manager.ts';
import type { MetadataEntry } from './file-forms.ts';
import { createUniqueFolder, formatStamp } from './session-folder.ts';

function open() {
  return new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
}

function hold(checkpoints: CheckpointManager, logs: string, sessionId = 'team') {
  const { chat } = createTeam({ maxRounds: 3, end: { signals: ['I have seen'] } });
  return new CheckpointingGroupChatManager({ chat, checkpoints, sessionId, logs });
}

function readJson(...path: string[]) {
  return JSON.parse(readFileSync(join(...path), 'utf8'));
}

test('[N40] a session writes its files beside the storage, up to date at every checkpoint', async () => {
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
  expect(readFileSync(join(folder, 'console.log'), 'utf8').trimEnd().split('\n').length).toBe(7);
});

test('[N41] files that a killed run did not write are written when it is resumed', async () => {
  const logs = join(temporaryFolder(), 'logs');
  const checkpoints = open();
  const { folder = '' } = await hold(checkpoints, logs).run({ message: 'Count.' });
  const { checkpoints: entries } = readJson(folder, 'checkpoints_metadata.json');
  const kept = entries.slice(0, 2);
  for (const { file } of entries.slice(2)) rmSync(join(folder, file));
  writeFileSync(join(folder, 'checkpoints_metadata.json'), JSON.stringify({ checkpoints: kept }));
  const { registry } = createTeam();
  const restorer = new CheckpointRestorer({ checkpoints, registry });
  const resumed = await hold(checkpoints, logs).resume();
  expect(resumed).toMatchObject({ status: 'ended', newMessages: 0, folder });
  expect(readJson(folder, 'checkpoints_metadata.json').checkpoints).toEqual(entries);
  for (const { file } of entries) {
    const { chat } = await restorer.restore({ file: join(folder, file) });
    expect(chat.record.problem).toBe('Count.');
  }
});

test('[N42] a continuation has a folder of its own that names its origin', async () => {
  const logs = join(temporaryFolder(), 'logs');
  const checkpoints = open();
  const { folder = '' } = await hold(checkpoints, logs).run({ message: 'Count.' });
  const { file, checkpoint_id } = readJson(folder, 'checkpoints_metadata.json').checkpoints[1];
  const restorer = new CheckpointRestorer({ checkpoints, registry: createTeam().registry });
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

test('[N43] names stay unique within a second', async () => {
  const parent = join(temporaryFolder(), 'logs');
  const name = `session_${formatStamp(Date.UTC(2026, 10, 16, 3, 4, 5))}`;
  const made = await Promise.all([1, 2, 3].map(() => createUniqueFolder(parent, name)));
  expect(made.map((path) => path.slice(parent.length + 1)).sort()).toEqual([
    'session_20261116_030405',
    'session_20261116_030405_2',
    'session_20261116_030405_3',
  ]);
});

test('[N44] files that cannot be written do not stop a run, and failures are in the error log', async () => {
  const logs = join(temporaryFolder(), 'logs');
  const checkpoints = open();
  const { chat } = createTeam({ maxRounds: 2 }, [{ status: 400, message: 'no such model' }]);
  const broken = new CheckpointingGroupChatManager({ chat, checkpoints, sessionId: 'broken', logs });
  const failed = await broken.run({ message: 'Count.' });
  expect(failed.status).toBe('failed');
  expect(readFileSync(join(failed.folder ?? '', 'error_log.txt'), 'utf8')).toContain('no such model');
  rmSync(join(failed.folder ?? '', 'console.log'));
  mkdirSync(join(failed.folder ?? '', 'console.log'));
  const team = createTeam({ maxRounds: 2 });
  const again = new CheckpointingGroupChatManager({ chat: team.chat, checkpoints, sessionId: 'broken', logs });
  const resumed = await again.resume();
  expect(resumed).toMatchObject({
    status: 'ended',
    newMessages: 2,
    fileProblems: [{ code: 'EISDIR' }, {}, {}, {}, {}],
  });
});
