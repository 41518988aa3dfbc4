import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { temporaryFolder } from '../../../test/support/storages.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import type { StandardAgentOptions } from '../agent/agent-options.ts';
import { AgentRegistry } from '../agent/agent-registry.ts';
import type { AgentState } from '../agent/agent-state.ts';
import { StandardAgent } from '../agent/standard-agent.ts';
import { CheckpointRestorer } from './checkpoint-restorer.ts';
import { CheckpointingGroupChatManager } from './checkpointing-group-chat-manager.ts';
import { GroupChat } from './group-chat.ts';
import { createTeam, parseTeam } from './team-config.ts';

const WRITES = 'Look:\n```sh\necho x > RAN\n```\n';

function group(bob: Partial<StandardAgentOptions>, registry = new AgentRegistry()): GroupChat {
  const agents = [
    new StandardAgent({ name: 'ann', defaultReply: WRITES }),
    new StandardAgent({ name: 'bob', defaultReply: 'Seen.', ...bob }),
  ];
  return new GroupChat({ agents, registry, speakerSelection: 'round_robin', maxRounds: 1 });
}

/** A chat of somebody else, in which bob is about to run what ann wrote. */
async function foreignChat(workDir: string, limits: object = {}) {
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  const chat = group({ codeExecution: { workDir, ...limits } });
  const { checkpointId = '' } = await new CheckpointingGroupChatManager({
    chat,
    manager,
    sessionId: 'foreign',
    logs: false,
  }).run({ message: 'Hi' });
  return { manager, id: checkpointId };
}

function work(): string {
  const folder = join(temporaryFolder(), 'work');
  mkdirSync(folder);
  return folder;
}

test('[code.6] code that only a checkpoint asks for is named by the restore and never runs', async () => {
  const workDir = work();
  const { manager, id } = await foreignChat(workDir);
  const makers = {
    StandardAgent: ({ name, codeExecution }: AgentState) => new StandardAgent({ name, codeExecution }),
  };
  for (const registry of [new AgentRegistry(), new AgentRegistry({ agents: makers })]) {
    const restorer = new CheckpointRestorer({ manager, registry });
    await expect(restorer.continue(id, { rounds: 2, logs: false })).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      message: expect.stringMatching(/"bob" asks to run code in .*not allowed here/),
    });
    const result = await restorer.continue(id, { rounds: 2, logs: false, onDifference: 'warn' });
    expect(result.messages.at(-2)).toMatchObject({ name: 'bob', content: 'Seen.' });
  }
  const mine = group({});
  const held = new CheckpointingGroupChatManager({ chat: mine, manager, sessionId: 'foreign', logs: false });
  await expect(held.resume()).rejects.toThrow(/code execution is not allowed here/);
  expect(existsSync(join(workDir, 'RAN'))).toBe(false);
});

test.each([
  ['the registry allows the folder', (workDir: string) => new AgentRegistry({ allowCode: [join(workDir, '..')] })],
  [
    'the program made an agent that runs code there',
    (workDir: string) => group({ codeExecution: { workDir } }).registry,
  ],
])('[code.6] code of a checkpoint runs if %s', async (_, allow) => {
  const workDir = work();
  const { manager, id } = await foreignChat(workDir);
  const result = await new CheckpointRestorer({ manager, registry: allow(workDir) }).continue(id, {
    rounds: 1,
    logs: false,
  });
  expect(result.report.status).toBe('complete');
  expect(existsSync(join(workDir, 'RAN'))).toBe(true);
});

test('[code.6] an allowed folder does not allow its neighbour', () => {
  const registry = new AgentRegistry({ allowCode: ['/srv/work'] });
  const allowed = ['/srv/work', '/srv/work/a', '/srv/workshop', '/srv', '/srv/work/../other', '/srv/work/..a'];
  expect(allowed.map((workDir) => registry.allowsCode({ workDir }))).toEqual([true, true, false, false, false, true]);
});

test('[code.6] captured files are put back only into folders that are allowed', async () => {
  const workDir = work();
  const { manager, id } = await foreignChat(workDir);
  const own = group({ codeExecution: { workDir } }).registry;
  const ran = await new CheckpointRestorer({ manager, registry: own }).continue(id, { rounds: 1, logs: false });
  writeFileSync(join(workDir, 'RAN'), 'changed');
  const stranger = new CheckpointRestorer({ manager, registry: new AgentRegistry() });
  await expect(stranger.restoreFiles(ran.checkpointId ?? '')).rejects.toThrow(/not allowed here/);
});

test('[code.6] a team file alone does not switch code execution on', () => {
  const team = parseTeam(
    'agents: [{ name: bob, code_execution: { workDir: work } }]\nspeaker_selection: round_robin\n',
  );
  expect(() => createTeam(team)).toThrow(/asks to run code of "bob" in "work".*--allow-code/);
  expect(createTeam(team, new AgentRegistry({ allowCode: ['.'] })).agents).toHaveLength(1);
});

/** Bob is about to run what ann wrote, in a chat that allowed him more than its code does now. */
async function wideChat(wide: object, narrow: StandardAgentOptions['codeExecution']) {
  const workDir = work();
  const { manager, id } = await foreignChat(workDir, wide);
  const codeExecution = typeof narrow === 'object' ? { ...narrow, workDir } : narrow;
  const chat = group(codeExecution === undefined ? {} : { codeExecution });
  return { workDir, manager, id, chat, held: hold(chat, manager) };
}

function hold(chat: GroupChat, manager: CheckpointManager) {
  return new CheckpointingGroupChatManager({ chat, manager, sessionId: 'foreign', logs: false });
}

const NARROWER: [string, object, object][] = [
  ['languages', {}, { languages: ['python'] }],
  ['timeoutMs', { timeoutMs: 9_000 }, { timeoutMs: 1 }],
  ['maxOutputBytes', {}, { maxOutputBytes: 3 }],
  ['env', { env: ['SECRET'] }, {}],
  ['capture', {}, { capture: false }],
];

test.each(NARROWER)(
  '[code.6] a checkpoint with wider %s than the code is a difference',
  async (field, wide, narrow) => {
    const { held } = await wideChat(wide, { workDir: '', ...narrow });
    await expect(held.resume({ rounds: 1 })).rejects.toMatchObject({
      details: { differences: [{ path: `$.agents.bob.codeExecution.${field}`, kind: 'changed' }] },
    });
  },
);

test.each<[string, StandardAgentOptions['codeExecution'], string]>([
  ['other languages', { workDir: '', languages: ['python'] }, '"sh" is not one of the languages'],
  ['code that is off', false, 'Seen.'],
  ['no code', undefined, 'Seen.'],
])('[code.6] the narrower of both counts, with warn and with accept: %s', async (_, narrow, said) => {
  for (const onDifference of ['warn', 'accept'] as const) {
    const { held, workDir } = await wideChat({}, narrow);
    const { messages, differences } = await held.resume({ rounds: 1, onDifference });
    expect(differences).not.toEqual([]);
    expect(messages.at(-1)?.content).toContain(said);
    expect(existsSync(join(workDir, 'RAN'))).toBe(false);
  }
});

test('[code.6] what narrower code kept back is there again for the code as it was', async () => {
  const { held, workDir, manager } = await wideChat({}, false);
  await held.resume({ rounds: 2, onDifference: 'warn' });
  expect(existsSync(join(workDir, 'RAN'))).toBe(false);
  await hold(group({ codeExecution: { workDir } }), manager).resume({ rounds: 1 });
  expect(existsSync(join(workDir, 'RAN'))).toBe(true);
});

test('[code.6] a restorer gives code no more than agents of its registry may', async () => {
  const { manager, id, chat, workDir } = await wideChat({}, { workDir: '', languages: ['python'] });
  const restorer = new CheckpointRestorer({ manager, registry: chat.registry });
  await expect(restorer.continue(id, { rounds: 1, logs: false })).rejects.toThrow('codeExecution.languages');
  await restorer.continue(id, { rounds: 1, logs: false, onDifference: 'accept' });
  expect(existsSync(join(workDir, 'RAN'))).toBe(false);
});

test('[code.6] what the checkpoint has narrower stays narrower with warn', async () => {
  const { held, workDir } = await wideChat({ languages: ['python'] }, { workDir: '' });
  await held.resume({ rounds: 1, onDifference: 'warn' });
  expect(existsSync(join(workDir, 'RAN'))).toBe(false);
});
