import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { temporaryFolder } from '../../../test/support/storages.ts';
import { createTeam } from '../../../test/support/team.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { scriptedModel } from '../../testing/model/scripted-model.ts';
import type { StandardAgentOptions } from '../agent/agent-options.ts';
import { AgentRegistry } from '../agent/agent-registry.ts';
import { StandardAgent } from '../agent/standard-agent.ts';
import { callTool, defineTool } from '../agent/tool.ts';
import type { ChatRunOptions } from './chat-run.ts';
import { CheckpointRestorer } from './checkpoint-restorer.ts';
import { CheckpointingGroupChatManager } from './checkpointing-group-chat-manager.ts';
import { GroupChat, type GroupChatOptions } from './group-chat.ts';

function open() {
  return new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
}

function manage(
  chat: GroupChat,
  manager: CheckpointManager,
  options: ChatRunOptions & { logs?: string; sessionId?: string; branch?: string } = {},
) {
  return new CheckpointingGroupChatManager({ chat, manager, sessionId: 'team', logs: false, ...options });
}

function group(agents: readonly StandardAgentOptions[], options: Partial<GroupChatOptions> = {}) {
  return new GroupChat({
    agents: agents.map((agent) => new StandardAgent(agent)),
    speakerSelection: 'round_robin',
    maxRounds: 4,
    ...options,
  });
}

const ann = { name: 'ann', defaultReply: 'Hot.' };
const bob = { name: 'bob', defaultReply: 'Cold.' };

async function history(manager: CheckpointManager, branch = 'main') {
  const { checkpoints: all } = await manager.list({ sessionId: 'team', branch }, { limit: 1000 });
  return all.toReversed();
}

function transcript(messages: readonly { name: string; content: string }[]) {
  return messages.map(({ name, content }) => `${name}: ${content}`);
}

describe('turns', () => {
  test('[agent.1] a model that calls tools although it may not any more ends its turn', async () => {
    const tool = defineTool({ name: 'dig', description: 'Digs.', input: z.object({}), run: () => 'deeper' });
    const model = scriptedModel(() => ({ text: 'On.', toolCalls: [{ name: 'dig', input: {} }] }), { id: 'digger' });
    let calls = 0;
    const counting = {
      id: 'digger',
      reply: (...args: Parameters<typeof model.reply>) => {
        if (++calls > 20) throw new Error('asked without end');
        return model.reply(...args);
      },
    };
    const chat = group([{ name: 'ann', model: counting, tools: [tool], maxToolRounds: 3 }, bob], { maxRounds: 2 });
    const result = await manage(chat, open()).run({ message: 'Dig.' });
    expect(result).toMatchObject({ status: 'ended', end: { reason: 'max_rounds' } });
    expect(calls).toBe(3);
    expect(result.messages[1]?.turn?.map(({ role }) => role).at(-1)).toBe('tool');
  });

  test('[chat.4] a selecting model that calls tools instead of naming somebody leaves it to the order', async () => {
    let calls = 0;
    const model = scriptedModel(
      () => {
        if (++calls > 20) throw new Error('asked without end');
        return { toolCalls: [{ name: 'choose', input: {} }] };
      },
      { id: 'chooser' },
    );
    const chat = group([ann, bob], { speakerSelection: 'auto', selector: model, maxRounds: 1 });
    const result = await manage(chat, open()).run({ message: 'Hello.' });
    expect(transcript(result.messages)).toEqual(['user: Hello.', 'ann: Hot.']);
  });

  test('[agent.4] an agent that is spent replies by itself if its person lets it', async () => {
    const options = { ...ann, humanInputMode: 'TERMINATE', maxConsecutiveAutoReplies: 1 } as const;
    const result = await manage(group([options, bob]), open(), { ask: async () => '' }).run({ message: 'Hello.' });
    expect(transcript(result.messages)).toEqual(['user: Hello.', 'ann: Hot.', 'bob: Cold.', 'ann: Hot.', 'bob: Cold.']);
  });

  test('[agent.1] an input that cannot be checked is told to the model', async () => {
    const input = z.object({ n: z.number().refine(async (n) => n > 0) });
    const tool = defineTool({ name: 'dig', description: 'Digs.', input, run: () => 'deeper' });
    const attempt = { attempt: 1, idempotencyKey: 'k', signal: undefined };
    expect(await callTool(tool, { n: 1 }, attempt)).toMatchObject({ isError: false, text: 'deeper' });
    const throwing = z.string().transform(() => {
      throw new Error('no such text');
    });
    const strange = defineTool({ name: 'dig', description: 'Digs.', input: throwing, run: () => 'deeper' });
    expect(await callTool(strange, 'x', attempt)).toMatchObject({ isError: true, text: 'Error: no such text' });
  });

  test('[agent.1] a result is not cut in the middle of a character', async () => {
    const options = { name: 'smile', description: 'Smiles.', input: z.object({}), maxResultChars: 3 };
    const tool = defineTool({ ...options, run: () => '😀😀😀😀' });
    const { text } = await callTool(tool, {}, { attempt: 1, idempotencyKey: 'k', signal: undefined });
    expect(text).toBe('😀\n[cut off: 6 of 8 characters]');
  });

  test('[agent.2] each agent is answered by its own model, also if two models have one id', async () => {
    const one = scriptedModel(() => 'I am one.');
    const two = scriptedModel(() => 'I am two.');
    expect(() =>
      group([
        { name: 'ann', model: one },
        { name: 'bob', model: two },
      ]),
    ).toThrow(/two models/);
  });
});

describe('runs', () => {
  test('[run.3] a group that has a conversation does not begin another', async () => {
    const manager = open();
    const chat = group([ann, bob]);
    await manage(chat, manager).run({ message: 'Hello.' });
    const second = manage(chat, manager, { sessionId: 'second' });
    await expect(second.run({ message: 'Another.' })).rejects.toThrow(/has a conversation already/);
    await expect(second.prompt('Another.', { rounds: 1 })).rejects.toThrow(/has a conversation already/);
    await expect(manage(group([ann]), open()).prompt(' ', { rounds: 1 })).rejects.toThrow(/empty/);
  });

  test('[run.2] a failure with a very long message is recorded', async () => {
    const registry = new AgentRegistry({
      predicates: {
        broken: () => {
          throw new Error('x'.repeat(100_000));
        },
      },
    });
    const manager = open();
    const result = await manage(group([ann, bob], { registry, end: { predicate: 'broken' } }), manager).run({
      message: 'Hello.',
    });
    expect(result.status).toBe('failed');
  });

  test('[agent.3] a conversation ends although one of its agents is paused', async () => {
    const chat = group([ann, bob]);
    const pause = () => chat.messages.length === 3 && chat.agent('ann')?.setStatus('paused');
    const result = await manage(chat, open(), { onMessage: () => void pause() }).run({ message: 'Hello.' });
    expect(result).toMatchObject({ status: 'ended', end: { reason: 'max_rounds' } });
    expect(chat.agent('ann')?.status).toBe('completed');
  });

  test('[run.6] a team that lists its agents in another order goes on in the order of the conversation', async () => {
    const manager = open();
    const cat = { name: 'cat', defaultReply: 'Wet.' };
    const stop = new AbortController();
    const first = group([ann, bob, cat]);
    await manage(first, manager, {
      signal: stop.signal,
      onMessage: () => void (first.messages.length === 2 && stop.abort()),
    }).run({ message: 'Hello.' });
    const result = await manage(group([bob, ann, cat]), manager).resume();
    expect(result.messages.map(({ name }) => name)).toEqual(['user', 'ann', 'bob', 'cat', 'ann']);
  });

  test('[chat.2] the words that end a conversation do not count in the statement of the problem', async () => {
    const result = await manage(group([ann, bob]), open()).run({ message: 'Say TERMINATE when you are done.' });
    expect(result).toMatchObject({ end: { reason: 'max_rounds' }, newMessages: 5 });
  });

  test('[run.10] a prompt may quote the words that end conversations', async () => {
    const manager = open();
    const team = [ann, bob];
    await manage(group(team, { maxRounds: 1 }), manager).run({ message: 'Hello.' });
    const result = await manage(group(team), manager).prompt('Do not say TERMINATE yet.', { rounds: 2 });
    expect(result).toMatchObject({ end: { reason: 'max_rounds' }, newMessages: 3 });
  });

  test('[chat.5] an agent with the name of the person is refused', () => {
    expect(() => group([{ name: 'user', defaultReply: 'Well.' }, bob])).toThrow('"user" is the name of the person');
    expect(() => group([bob], { managerName: 'user' })).toThrow('"user" is the name of the person');
  });
});

describe('people', () => {
  const boss = { name: 'boss', humanInputMode: 'ALWAYS' } as const;

  async function waitAndAnswer(manager: CheckpointManager) {
    await manage(group([boss, ann]), manager).run({ message: 'Hello.' });
    const answers = { '1:boss:reply': 'First.', '3:boss:reply': 'Second.' };
    const next = await manage(group([boss, ann]), manager, { answers: { '1:boss:reply': 'First.' } }).resume();
    expect(next.status).toBe('waiting');
    return manage(group([boss, ann]), manager, { answers }).resume();
  }

  test.each(['frozen', 'recorded'] as const)(
    '[chat.3] a %s replay takes answers that were waited for',
    async (mode) => {
      const manager = open();
      const original = await waitAndAnswer(manager);
      expect(original.status).toBe('ended');
      const all = await history(manager);
      const restorer = new CheckpointRestorer({ manager });
      const replay = await restorer.continue(all[0]?.id ?? '', { logs: false, rounds: 4, mode });
      expect(replay).toMatchObject({ status: 'ended', end: { reason: 'max_rounds' } });
      expect(transcript(replay.messages)).toEqual(transcript(original.messages));
      const digests = (list: typeof all) =>
        list.filter(({ trigger }) => trigger !== 'waiting_for_input').map(({ stateDigest }) => stateDigest);
      expect(digests(await history(manager, replay.branch))).toEqual(digests(all).slice(1));
    },
  );

  test('[chat.3] a frozen replay waits where the recording ends with a question', async () => {
    const manager = open();
    await manage(group([boss, ann]), manager).run({ message: 'Hello.' });
    const [first] = await history(manager);
    const restorer = new CheckpointRestorer({ manager });
    const replay = await restorer.continue(first?.id ?? '', { logs: false, rounds: 4, mode: 'frozen' });
    expect(replay).toMatchObject({ status: 'waiting', request: { id: '1:boss:reply' } });
  });

  test('[run.1] an answer that names nobody, or that nobody asked for, is refused; the question stays', async () => {
    const manager = open();
    const team = () => group([ann, bob], { speakerSelection: 'manual' });
    const waiting = await manage(team(), manager).run({ message: 'Hello.' });
    expect(waiting).toMatchObject({ status: 'waiting', request: { id: '1:chat_manager:speaker' } });
    const answer = (answers: Record<string, string>) => manage(team(), manager).resume({ answers });
    await expect(answer({ '1:chat_manager:speaker': 'boob' })).rejects.toThrow('It takes one of: ann, bob');
    await expect(answer({ '1:ann:reply': 'bob' })).rejects.toMatchObject({
      code: 'NOT_FOUND',
      message: expect.stringContaining('It asks: 1:chat_manager:speaker.'),
    });
    const right = await answer({ '1:chat_manager:speaker': 'bob' });
    expect(right).toMatchObject({ status: 'waiting', request: { id: '2:chat_manager:speaker' }, newMessages: 1 });
  });
});

describe('speakers', () => {
  test.each([
    { answer: 'I choose solver-2.', speaker: 'solver-2' },
    { answer: 'Not solver-2 but the critic? No: solver', speaker: undefined },
    { answer: 'solver2 is no name; solver is.', speaker: 'solver' },
  ])('[chat.4] "$answer" names $speaker', async ({ answer, speaker }) => {
    const model = scriptedModel(() => answer, { id: 'chooser' });
    const names = ['critic', 'solver', 'solver-2'];
    const chat = group(
      names.map((name) => ({ name, defaultReply: 'Yes.' })),
      { speakerSelection: 'auto', selector: model, maxRounds: 1 },
    );
    const result = await manage(chat, open()).run({ message: 'Hello.' });
    expect(result.messages[1]?.name).toBe(speaker ?? 'critic');
  });
});

describe('continuing', () => {
  test('[chat.2] a pending reply that would end the conversation is stripped, too', async () => {
    const manager = open();
    const done = { name: 'bob', defaultReply: 'Done. TERMINATE' };
    await manage(group([ann, done]), manager).run({ message: 'Hello.' });
    const all = await history(manager);
    const pending = all.findLast(({ trigger }) => trigger === 'speaker_reply_generated');
    const restorer = new CheckpointRestorer({ manager });
    const result = await restorer.continue(pending?.id ?? '', { logs: false, rounds: 2, stripSignal: true });
    expect(transcript(result.messages)).toEqual(['user: Hello.', 'ann: Hot.', 'bob: Done.', 'ann: Hot.']);
    const { chat } = await restorer.restore(result.checkpointId ?? '');
    for (const agent of chat.agents)
      expect(transcript(agent.history('chat_manager'))).toEqual(transcript(result.messages));
  });

  test('[chat.2] every match of the pattern is stripped, and what has none is left as it is', async () => {
    const manager = open();
    const done = { name: 'bob', defaultReply: ' Done: ok1 and ok2.' };
    const options = { end: { signals: [], pattern: { source: 'ok\\d' } } };
    const ended = await manage(group([ann, done], options), manager).run({ message: 'Hello.' });
    expect(ended).toMatchObject({ end: { signal: 'ok1' } });
    const restorer = new CheckpointRestorer({ manager });
    const more = await restorer.continue(ended.checkpointId ?? '', { logs: false, rounds: 1, stripSignal: true });
    expect(more.messages[2]?.content).toBe('Done:  and .');
    const again = await restorer.continue(more.checkpointId ?? '', { logs: false, rounds: 1, stripSignal: true });
    expect(again.messages[3]).toEqual({ name: 'ann', content: 'Hot.' });
  });

  test('[run.7] what an override replaces is not missing, and what it names has to be there', async () => {
    const manager = open();
    const model = scriptedModel(() => 'Old.', { id: 'old' });
    const { checkpointId = '' } = await manage(group([{ name: 'ann', model }, bob]), manager).run({
      message: 'Hello.',
    });
    const registry = new AgentRegistry({ models: { new: scriptedModel(() => 'New.', { id: 'new' }) } });
    const restorer = new CheckpointRestorer({ manager, registry });
    const overrides = { agents: { ann: { modelId: 'new' } } };
    const result = await restorer.continue(checkpointId, { logs: false, rounds: 1, overrides });
    expect(result.messages.at(-1)?.content).toBe('New.');
    const wrong = { agents: { ann: { modelId: 'newer' } } };
    await expect(restorer.continue(checkpointId, { logs: false, rounds: 1, overrides: wrong })).rejects.toThrow(
      'The model "newer" of "ann" is not registered.',
    );
  });

  test('[chat.3] a file without its recordings cannot be replayed, and no call is made', async () => {
    const { chat, registry, calls } = createTeam({ maxRounds: 2 });
    const manager = open();
    await manage(chat, manager).run({ message: 'Hello.' });
    const [first] = await history(manager);
    const file = join(temporaryFolder(), 'first.json');
    writeFileSync(file, JSON.stringify(await manager.exportCheckpoint(first?.id ?? '')));
    const restorer = new CheckpointRestorer({ manager: open(), registry });
    const before = calls.length;
    await expect(restorer.continue({ file }, { logs: false, rounds: 2, mode: 'frozen' })).rejects.toMatchObject({
      code: 'INVALID_INPUT',
    });
    expect(calls.length).toBe(before);
  });

  test('[run.7] a prompt whose secrets were not stored is told, and an override puts it right', async () => {
    const manager = open();
    const systemMessage = 'The key is sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD.';
    const { checkpointId = '' } = await manage(group([{ ...ann, systemMessage }, bob]), manager).run({
      message: 'Hello.',
    });
    const restorer = new CheckpointRestorer({ manager });
    await expect(restorer.continue(checkpointId, { logs: false, rounds: 1 })).rejects.toThrow(
      'The prompt of "ann" changed, or had secrets in it.',
    );
    const overrides = { agents: { ann: { systemMessage } } };
    const result = await restorer.continue(checkpointId, { logs: false, rounds: 1, overrides });
    expect(result).toMatchObject({ newMessages: 1, report: { status: 'complete', differences: [] } });
    const resumed = group([{ ...ann, systemMessage }, bob]);
    await manage(resumed, manager).resume();
    expect(resumed.agent('ann')?.saveState().systemMessage).toBe(systemMessage);
  });

  test('[run.7] predicates, selectors and the model that selects are listed if they are missing', async () => {
    const manager = open();
    const registry = new AgentRegistry({
      predicates: { never: () => false },
      selectors: { first: ({ candidates }) => candidates[0] },
    });
    const chooser = scriptedModel(() => 'ann', { id: 'chooser' });
    for (const [selection, missing] of [
      [{ speakerSelection: { selector: 'first' } }, 'The selector "first" of the group is not registered.'],
      [{ speakerSelection: 'auto', selector: chooser }, 'The model "chooser" of the group is not registered.'],
    ] as const) {
      const chat = group([ann, bob], { registry, end: { predicate: 'never' }, ...selection });
      const { checkpointId = '' } = await manage(chat, manager, { sessionId: missing.slice(4, 9).trim() }).run({
        message: 'Hello.',
      });
      const { report } = await new CheckpointRestorer({ manager }).restore(checkpointId, { onDifference: 'warn' });
      const predicate = 'The predicate "never" of the group is not registered.';
      expect(report.differences.map(({ text }) => text)).toEqual([predicate, missing]);
    }
  });

  test('[run.9] a continuation belongs to the user of its origin, and so does a resumed run', async () => {
    const manager = open();
    const boss = { name: 'boss', humanInputMode: 'ALWAYS' } as const;
    const { checkpointId = '' } = await manage(group([boss, bob]), manager, { userId: 'ada' }).run({
      message: 'Hello.',
    });
    const ask = async () => 'Well.';
    const { branch } = await new CheckpointRestorer({ manager }).continue(checkpointId, {
      logs: false,
      rounds: 1,
      ask,
    });
    await manage(group([boss, bob]), manager, { ask }).resume();
    const all = [...(await history(manager)), ...(await history(manager, branch))];
    expect(new Set(all.map(({ userId }) => userId))).toEqual(new Set(['ada']));
  });

  test('[run.7] another seed draws other speakers', async () => {
    const manager = open();
    const names = ['a', 'b', 'c', 'd', 'e'].map((name) => ({ name, defaultReply: name }));
    await manage(group(names, { speakerSelection: 'random' }), manager).run({ message: 'Hello.' });
    const [first] = await history(manager);
    const restorer = new CheckpointRestorer({ manager });
    const draw = async (seed: number) => {
      const overrides = { settings: { seed } };
      const { messages } = await restorer.continue(first?.id ?? '', { logs: false, rounds: 12, overrides });
      return transcript(messages);
    };
    expect(await draw(7)).not.toEqual(await draw(8));
    expect(await draw(7)).toEqual(await draw(7));
  });
});

describe('working directories', () => {
  const write = (name: string, text: string) =>
    `\`\`\`js\nrequire('fs').writeFileSync('${name}', ${JSON.stringify(text)})\n\`\`\``;

  test('[workspace.3] two agents that share a folder get back what it held last', async () => {
    const workDir = join(temporaryFolder(), 'work');
    mkdirSync(workDir);
    const model = scriptedModel([write('a.txt', 'one'), write('a.txt', 'two'), 'TERMINATE'], { id: 'coder' });
    const runner = (name: string) => ({ name, codeExecution: { workDir, timeoutMs: 20_000 } });
    const chat = group([{ name: 'coder', model }, runner('z-first'), runner('a-second')], {
      maxRounds: 9,
      speakerSelection: { selector: 'turns' },
      registry: new AgentRegistry({
        selectors: { turns: ({ messages }) => ['coder', 'z-first', 'coder', 'a-second', 'coder'][messages.length - 1] },
      }),
    });
    const manager = open();
    const { checkpointId = '' } = await manage(chat, manager).run({ message: 'Write.' });
    const restorer = new CheckpointRestorer({ manager, registry: chat.registry });
    rmSync(join(workDir, 'a.txt'));
    await restorer.restoreFiles(checkpointId);
    expect(readFileSync(join(workDir, 'a.txt'), 'utf8')).toBe('two');
  });

  test('[run.8] a file with binary contents and redacted secrets continues elsewhere', async () => {
    const root = temporaryFolder();
    const workDir = join(root, 'work');
    mkdirSync(workDir);
    writeFileSync(
      join(workDir, 'image.bin'),
      Uint8Array.from({ length: 4000 }, (_, index) => (index * 7) % 256),
    );
    writeFileSync(join(workDir, '.env-sample'), 'OPENAI_API_KEY=sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD\n');
    const model = scriptedModel([write('a.txt', 'one'), 'Fine.', 'TERMINATE'], { id: 'coder' });
    const chat = group([
      { name: 'coder', model },
      { name: 'runner', codeExecution: { workDir } },
    ]);
    const manager = open();
    const result = await manage(chat, manager, { logs: join(root, 'logs') }).run({ message: 'Write.' });
    expect(result.fileProblems).toEqual([]);
    const files = readdirSync(join(result.folder ?? '', 'checkpoints'));
    const last = files.find((name) => name.includes('conversation_end')) ?? '';
    const file = join(result.folder ?? '', 'checkpoints', last);
    expect(readFileSync(file, 'utf8')).not.toContain('sk-proj-abcdef');
    const restorer = new CheckpointRestorer({ manager: open(), registry: chat.registry });
    rmSync(workDir, { recursive: true });
    const more = await restorer.continue({ file }, { logs: false, rounds: 1, files: 'restore' });
    expect(more.status).toBe('ended');
    expect([...readFileSync(join(workDir, 'image.bin'))].slice(0, 4)).toEqual([0, 7, 14, 21]);
    expect(existsSync(join(workDir, '.env-sample'))).toBe(false);
    expect(more.report).toMatchObject({
      status: 'partial',
      differences: [{ kind: 'missing', text: expect.stringContaining('.env-sample') }],
    });
  });
});

describe('files', () => {
  test('[run.11] a folder that cannot be made does not stop a run or a continuation', async () => {
    const manager = open();
    const logs = join(temporaryFolder(), 'not-a-folder');
    writeFileSync(logs, '');
    const result = await manage(group([ann, bob]), manager, { logs }).run({ message: 'Hello.' });
    expect(result).toMatchObject({ status: 'ended', newMessages: 5, fileProblems: [{ code: 'STORAGE' }] });
    expect(result.folder).toBeUndefined();
    const restorer = new CheckpointRestorer({ manager });
    const more = await restorer.continue(result.checkpointId ?? '', { logs, rounds: 1 });
    expect(more).toMatchObject({ status: 'ended', newMessages: 1, fileProblems: [{ code: 'STORAGE' }] });
  });

  test('[run.11] a file that could not be written is written with the next checkpoint', async () => {
    const manager = open();
    const logs = temporaryFolder();
    const chat = group([ann, bob]);
    let folder = '';
    const result = await manage(chat, manager, {
      logs,
      onMessage: () => {
        folder = join(logs, readdirSync(logs)[0] ?? '', 'checkpoints');
        if (chat.messages.length === 2) {
          rmSync(folder, { recursive: true });
          writeFileSync(folder, 'in the way');
        }
        if (chat.messages.length === 3) {
          rmSync(folder);
          mkdirSync(folder);
        }
      },
    }).run({ message: 'Hello.' });
    expect(result.fileProblems.length).toBe(2);
    const names = readdirSync(folder).map((name) => Number(name.split('_')[1]));
    const sequences = (await history(manager)).map(({ sequence }) => sequence);
    expect(names.sort((a, b) => a - b)).toEqual(sequences.slice(4));
  });

  test('[run.12] branches of a session that write to one folder do not overwrite each other', async () => {
    const manager = open();
    const logs = temporaryFolder();
    await manage(group([ann, bob]), manager, { logs }).run({ message: 'Hello.' });
    const [, second] = await history(manager);
    await manager.fork(second?.id ?? '', { branch: 'other' });
    const { folder = '' } = await manage(group([ann, bob]), manager, { logs, branch: 'other' }).resume();
    const read = (path: string) => JSON.parse(readFileSync(join(folder, path), 'utf8'));
    const { checkpoints: entries } = read('checkpoints_metadata.json') as {
      checkpoints: { file: string; checkpoint_id: string }[];
    };
    expect(entries.length).toBe(11 + 9);
    for (const { file, checkpoint_id } of entries) expect(JSON.stringify(read(file))).toContain(`"${checkpoint_id}"`);
  });

  test('[run.11] the time of a session is that of its beginning, also after a resume', async () => {
    const manager = open();
    const logs = temporaryFolder();
    const team = [{ name: 'boss', humanInputMode: 'ALWAYS' } as const, ann];
    const { folder = '' } = await manage(group(team), manager, { logs }).run({ message: 'Hello.' });
    const path = join(folder, 'checkpoints_metadata.json');
    const read = () => JSON.parse(readFileSync(path, 'utf8')) as { created_at: string };
    const before = read().created_at;
    await new Promise((resolve) => setTimeout(resolve, 5));
    await manage(group(team), manager, { logs, ask: async () => 'exit' }).resume();
    expect(read().created_at).toBe(before);
  });

  test('[run.12] a continuation elsewhere names the folder of its origin', async () => {
    const manager = open();
    const root = temporaryFolder();
    const logs = join(root, 'logs');
    const { folder, checkpointId = '' } = await manage(group([ann, bob]), manager, { logs }).run({
      message: 'Hi.',
    });
    const restorer = new CheckpointRestorer({ manager });
    const more = await restorer.continue(checkpointId, { logs, outputRoot: join(root, 'out'), rounds: 1 });
    const text = readFileSync(join(more.folder ?? '', 'continuation_metadata.json'), 'utf8');
    expect(JSON.parse(text)).toMatchObject({ original_session_dir: folder });
  });
});
