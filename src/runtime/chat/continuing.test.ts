import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { temporaryFolder } from '../../../test/support/storages.ts';
import { answerOf, countingTool, createTeam } from '../../../test/support/team.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { faultyStorage } from '../../testing/faulty-storage.ts';
import { scriptedModel } from '../../testing/model/scripted-model.ts';
import { AgentRegistry } from '../agent/agent-registry.ts';
import { StandardAgent } from '../agent/standard-agent.ts';
import { defineTool } from '../agent/tool.ts';
import type { ModelRequest } from '../model/chat-model.ts';
import type { ChatRunOptions } from './chat-run.ts';
import type { ChatState } from './chat-state.ts';
import { CheckpointRestorer } from './checkpoint-restorer.ts';
import { CheckpointingGroupChatManager } from './checkpointing-group-chat-manager.ts';
import { GroupChat, type GroupChatOptions } from './group-chat.ts';

function open() {
  return new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
}

function manage(chat: GroupChat, manager: CheckpointManager, options: ChatRunOptions & { branch?: string } = {}) {
  return new CheckpointingGroupChatManager({ chat, manager, sessionId: 'team', logs: false, ...options });
}

async function latest(manager: CheckpointManager): Promise<string> {
  return (await manager.latest({ sessionId: 'team' }))?.id ?? '';
}

function person(options: Partial<GroupChatOptions> = {}) {
  const agents = [
    new StandardAgent({ name: 'boss', humanInputMode: 'ALWAYS' }),
    new StandardAgent({ name: 'clerk', defaultReply: 'Noted.' }),
  ];
  return new GroupChat({ agents, speakerSelection: 'round_robin', maxRounds: 4, ...options });
}

describe('a conversation with people', () => {
  test('[run.1] waits for an answer, also in another process, and is asked once', async () => {
    const manager = open();
    const waiting = await manage(person(), manager).run({ message: 'Hello.' });
    expect(waiting).toMatchObject({
      status: 'waiting',
      request: { id: '1:boss:reply', agent: 'boss' },
      newMessages: 1,
    });
    const again = await manage(person(), manager).resume();
    expect(again).toMatchObject({ status: 'waiting', request: { id: '1:boss:reply' }, newMessages: 0 });
    const answers = { '1:boss:reply': 'Write this down.' };
    const next = await manage(person(), manager, { answers }).resume();
    expect(next).toMatchObject({ status: 'waiting', request: { id: '3:boss:reply' }, newMessages: 2 });
    expect(next.messages.map(({ content }) => content)).toEqual(['Hello.', 'Write this down.', 'Noted.']);
    const left = await manage(person(), manager, { ask: async () => 'exit' }).resume();
    expect(left).toMatchObject({ status: 'ended', end: { reason: 'exit' } });
  });

  test('[run.9] after a person left, rounds that are granted are run, and the person is asked anew', async () => {
    const manager = open();
    await manage(person(), manager).run({ message: 'Hello.' });
    await manage(person(), manager).answer({ requestId: '1:boss:reply', answer: 'exit', by: 'Ann' });
    expect(await manage(person(), manager).resume()).toMatchObject({ end: { reason: 'exit' } });
    expect(await manage(person(), manager).resume({ rounds: 2 })).toMatchObject({ status: 'waiting' });
    const [asked] = await manage(person(), manager).pending();
    await manage(person(), manager).answer({ requestId: asked?.id ?? '', answer: 'Once more.', by: 'Ann' });
    const result = await manage(person(), manager).resume();
    expect(result).toMatchObject({ status: 'ended', end: { reason: 'max_rounds' }, newMessages: 2 });
    expect(result.messages.map(({ content }) => content)).toEqual(['Hello.', 'Once more.', 'Noted.']);
  });

  test('[chat.2] a person may overrule the end', async () => {
    const manager = open();
    const agents = [
      new StandardAgent({ name: 'boss', humanInputMode: 'TERMINATE', defaultReply: 'Go on.' }),
      new StandardAgent({ name: 'clerk', defaultReply: 'TERMINATE' }),
    ];
    const chat = new GroupChat({ agents, speakerSelection: 'round_robin', maxRounds: 9 });
    const typed = ['Not yet.', ''];
    const result = await manage(chat, manager, { ask: async () => typed.shift() }).run({ message: 'Hello.' });
    expect(result).toMatchObject({ status: 'ended', end: { reason: 'signal', signal: 'TERMINATE' } });
    expect(result.messages.map(({ name, content }) => `${name}: ${content}`)).toEqual([
      'user: Hello.',
      'boss: Go on.',
      'clerk: TERMINATE',
      'boss: Not yet.',
      'clerk: TERMINATE',
    ]);
  });
});

describe('a conversation that goes wrong', () => {
  test('[run.2] a model that fails leaves a recorded failure that can be resumed', async () => {
    const manager = open();
    let isDown = true;
    const script = (request: ModelRequest) => (isDown ? { status: 503 } : answerOf(request));
    const team = () => createTeam({ maxRounds: 2 }, script).chat;
    const failed = await manage(team(), manager).run({ message: 'Hello.' });
    expect(failed).toMatchObject({ status: 'failed', error: { code: 'MODEL' }, newMessages: 1 });
    expect(await manager.latest({ sessionId: 'team' })).toMatchObject({
      type: 'recovery',
      trigger: 'run_failed',
      status: 'error',
    });
    isDown = false;
    expect(await manage(team(), manager).resume()).toMatchObject({ status: 'ended', newMessages: 2 });
  });

  test('[run.2] what a failed turn had finished is not done again', async () => {
    const manager = open();
    let isDown = true;
    const script = (request: ModelRequest) => {
      const isToolDone = request.messages.at(-1)?.role === 'tool';
      return isDown && isToolDone ? { status: 503 } : answerOf(request);
    };
    const first = createTeam({ maxRounds: 1 }, script);
    expect(await manage(first.chat, manager).run({ message: 'Hello.' })).toMatchObject({ status: 'failed' });
    expect([first.calls, first.model.requests.length]).toEqual([[2], 2]);
    isDown = false;
    const second = createTeam({ maxRounds: 1 }, script);
    expect(await manage(second.chat, manager).resume()).toMatchObject({ status: 'ended', newMessages: 1 });
    expect([second.calls, second.model.requests.length]).toEqual([[], 1]);
  });

  test('[run.2] a stop leaves everything as it is', async () => {
    const manager = open();
    const stop = new AbortController();
    const { chat } = createTeam();
    const options = { signal: stop.signal, onMessage: () => chat.messages.length === 3 && stop.abort() };
    const stopped = await manage(chat, manager, { ...options, onMessage: () => void options.onMessage() }).run({
      message: 'Hello.',
    });
    expect(stopped).toMatchObject({ status: 'stopped', newMessages: 3 });
    const resumed = await manage(createTeam().chat, manager).resume();
    expect(resumed).toMatchObject({ status: 'ended', end: { reason: 'max_rounds' } });
    expect(resumed.messages.length).toBe(11);
  });

  test('[run.2] a save that fails does not stop the run, and is told', async () => {
    // After the lease and the first message: the question, its answer, then the two saves of the first reply.
    const storage = faultyStorage(new InMemoryCheckpointStorage(), { commits: { 6: 'fails', 7: 'fails' } });
    const manager = new CheckpointManager({ storage });
    const result = await manage(person(), manager, { ask: async () => 'Yes.' }).run({ message: 'Hello.' });
    expect(result.failedSaves).toMatchObject([{ code: 'STORAGE' }, { code: 'STORAGE' }]);
    expect(result.messages.length).toBe(5);
    const state = (await manager.load(await latest(manager))) as ChatState;
    expect(state.chat.messages).toEqual(result.messages);
  });

  test('[run.3] a session is begun once and resumed only if it was begun', async () => {
    const manager = open();
    await expect(manage(createTeam().chat, manager).resume()).rejects.toMatchObject({ code: 'NOT_FOUND' });
    await manage(createTeam().chat, manager).run({ message: 'Hello.', rounds: 1 });
    await expect(manage(createTeam().chat, manager).run({ message: 'Again.' })).rejects.toThrow(/resume\(\)/);
    await expect(manage(createTeam().chat, open()).run({ message: ' ' })).rejects.toThrow(/empty/);
  });
});

describe('a restore', () => {
  async function recorded(options: Partial<GroupChatOptions> = {}) {
    const manager = open();
    const team = createTeam({ maxRounds: 4, ...options });
    await manage(team.chat, manager).run({ message: 'Hello.' });
    return { manager, team, id: await latest(manager) };
  }

  test('[chat.2] what ended by its own words says so, and goes on with them stripped', async () => {
    const { manager, team, id } = await recorded({ end: { signals: ['square'] } });
    const restorer = new CheckpointRestorer({ manager, registry: team.registry });
    const ended = await restorer.continue(id, { logs: false, rounds: 2 });
    expect(ended).toMatchObject({ status: 'ended', end: { reason: 'signal' }, newMessages: 0, checkpointId: id });
    const gone = await restorer.continue(id, { logs: false, rounds: 1, stripSignal: true });
    expect(gone).toMatchObject({ status: 'ended', end: { reason: 'max_rounds' }, newMessages: 1 });
    const { chat } = await restorer.restore(gone.checkpointId ?? '');
    expect(chat.messages[1]?.content).toBe('The  is 4.');
    expect(chat.agent('critic')?.history('chat_manager')[2]?.content).toBe('The  is 4.');
    expect(chat.agent('solver')?.history('chat_manager')[2]?.turn?.at(-1)?.content).toBe('The  is 4.');
  });

  test('[run.10] a prompt becomes the next request, from any checkpoint, also of a conversation that ended', async () => {
    const { manager, team } = await recorded({ end: { signals: ['square'] } });
    const restorer = new CheckpointRestorer({ manager, registry: team.registry });
    const { checkpoints: all } = await manager.list({ sessionId: 'team' }, { limit: 100 });
    for (const { id } of all.filter(({ sequence }) => sequence > 1)) {
      const result = await restorer.continue(id, { prompt: 'Once more.', rounds: 1, logs: false });
      expect(result.newMessages).toBe(2);
      expect(result.messages.at(-2)).toEqual({ name: 'user', content: 'Once more.' });
      expect(result.messages.at(-1)?.name).toBe('solver');
    }
    const chat = createTeam({ end: { signals: ['square'] } }).chat;
    const next = await manage(chat, manager).prompt('And now?', { rounds: 2 });
    expect(next).toMatchObject({ status: 'ended', newMessages: 2, branch: 'main' });
  });

  test('[run.6] a continuation that is stopped in its first turn is resumed with what it was asked for', async () => {
    const { manager, id } = await recorded({ end: { signals: ['square'] } });
    const stop = new AbortController();
    const asked: ModelRequest[] = [];
    const script = (request: ModelRequest) => {
      if (asked.push(request) > 1) return answerOf(request);
      stop.abort();
      return { text: 'Too late.', delayMs: 60_000 };
    };
    const team = createTeam({}, script);
    const options = { stripSignal: true, rounds: 2, logs: false, signal: stop.signal } as const;
    const restorer = new CheckpointRestorer({ manager, registry: team.registry });
    const stopped = await restorer.continue(id, {
      ...options,
      overrides: { settings: { end: { signals: ['never'] } } },
    });
    expect(stopped).toMatchObject({ status: 'stopped', newMessages: 0 });
    const { branch } = stopped;
    const resumed = await manage(team.chat, manager, { branch }).resume({ onDifference: 'warn' });
    expect(resumed).toMatchObject({ status: 'ended', end: { reason: 'max_rounds' }, branch, newMessages: 2 });
    expect(resumed.messages.slice(2).map(({ name }) => name)).toEqual(['critic', 'solver']);
  });

  test('[run.7] without the code it names, it is partial and lists what is missing', async () => {
    const { manager, id } = await recorded();
    const restorer = new CheckpointRestorer({ manager });
    const { report } = await restorer.restore(id, { onDifference: 'warn' });
    expect(report.status).toBe('partial');
    expect(report.differences.map(({ kind, text }) => `${kind}: ${text}`)).toEqual([
      'missing: The tool "square" of "solver" is not registered.',
      'missing: The class "CountingAgent" of "critic" is not registered.',
      'missing: The model "scripted-team" of "solver" is not registered.',
      'missing: The model "scripted-team" of "critic" is not registered.',
    ]);
    const refused = restorer.continue(id, { logs: false, rounds: 1 });
    await expect(refused).rejects.toThrow(/cannot be put back as it was.*Register what is missing/);
    await expect(refused).rejects.not.toThrow(/changed|another way/);
  });

  test('[run.7] a tool that changed since is refused, told or accepted, with one option', async () => {
    const { manager, team, id } = await recorded();
    const changed = defineTool({
      ...countingTool(() => undefined),
      description: 'Cubes.',
      input: z.object({}),
      run: () => 0,
    });
    const registry = new AgentRegistry({
      tools: [changed],
      models: { 'scripted-team': team.model },
      agents: { CountingAgent: (state) => team.registry.maker('CountingAgent')?.(state) as StandardAgent },
    });
    const restorer = new CheckpointRestorer({ manager, registry });
    await expect(restorer.restore(id)).rejects.toThrow('The tool "square" of "solver" changed.');
    const path = '$.agents.solver.tools.square';
    const found = [{ path, kind: 'changed', text: 'The tool "square" of "solver" changed.' }];
    expect((await restorer.restore(id, { onDifference: 'warn' })).report).toEqual({
      status: 'partial',
      differences: found,
    });
    const accepted = await restorer.continue(id, { logs: false, rounds: 1, onDifference: 'accept' });
    expect(accepted.differences).toEqual(found);
    const more = await restorer.continue(accepted.checkpointId ?? '', { logs: false, rounds: 1 });
    expect(more.differences).toEqual([]);
  });

  test('[run.3] what was restored goes on where it is the head, and is refused elsewhere, with what to do', async () => {
    const { manager, team, id } = await recorded();
    const restorer = new CheckpointRestorer({ manager, registry: team.registry });
    const restore = async (at: string, sessionId: string) => {
      const { chat } = await restorer.restore({ sessionId: 'team', at });
      return new CheckpointingGroupChatManager({ chat, manager, sessionId, logs: false });
    };
    for (const sessionId of ['team', 'new'])
      for (const go of ['resume', 'run', 'prompt'] as const) {
        const held = await restore('message 2', sessionId);
        const going =
          go === 'run' ? held.run({ message: 'Go.' }) : go === 'prompt' ? held.prompt('Go.') : held.resume();
        await expect(going).rejects.toThrow(/was restored from .* restorer\.continue\(.*manager\.rewind\(/);
      }
    expect(await latest(manager)).toBe(id);
    const held = await restore('main', 'team');
    for (const rounds of [1, 1]) expect((await held.resume({ rounds })).status).toBe('ended');
  });

  test('[run.8] a checkpoint of another kind is refused', async () => {
    const manager = open();
    const id = await manager.save({ hello: 1 });
    const restorer = new CheckpointRestorer({ manager });
    await expect(restorer.restore(id)).rejects.toThrow(/does not hold a conversation/);
    await expect(restorer.continue(id, { logs: false, rounds: 0 })).rejects.toMatchObject({ code: 'INVALID_INPUT' });
  });

  test('[run.8] a message that was nothing but a secret is named, with what to do', async () => {
    const { manager, team, id } = await recorded();
    const said = `sk_live_${'a1B2c3D4'.repeat(3)}`;
    const { headId } = await manager.fork(id, {
      edit: [{ op: 'replace', path: '/chat/messages/0/content', value: said }],
    });
    const restorer = new CheckpointRestorer({ manager, registry: team.registry });
    await expect(restorer.restore(headId)).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      message: expect.stringMatching(/nothing but a secret.*\$\.chat\.messages\[0\]\.content.*Fork the checkpoint/),
    });
  });

  test('[run.8] an edit of a wrong type is the input of a caller, and no damage', async () => {
    const { manager, team, id } = await recorded();
    const { agents } = (await manager.load(id)) as { agents: Record<string, unknown> };
    const path = `/agents/${Object.keys(agents)[0]}/histories`;
    const { headId } = await manager.fork(id, { edit: [{ op: 'replace', path, value: 5 }] });
    const restorer = new CheckpointRestorer({ manager, registry: team.registry });
    await expect(restorer.restore(headId)).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      message: expect.stringMatching(/histories.*right type/),
    });
  });

  test('[run.8] a file continues in a storage that never saw it; an edited or cut file is refused', async () => {
    const { manager, team, id } = await recorded();
    const file = join(temporaryFolder(), 'checkpoint.json');
    const text = JSON.stringify(await manager.exportCheckpoint(id), null, 2);
    writeFileSync(file, text);
    const elsewhere = open();
    const restorer = new CheckpointRestorer({ manager: elsewhere, registry: team.registry });
    const first = await restorer.continue({ file }, { logs: false, rounds: 2 });
    expect(first).toMatchObject({ newMessages: 2, originId: id, sessionId: `from-${id}` });
    expect((await restorer.continue({ file }, { logs: false, rounds: 1 })).sessionId).toBe(`from-${id}-2`);
    writeFileSync(file, text.replace('Hello.', 'Hullo.'));
    await expect(restorer.restore({ file })).rejects.toMatchObject({ code: 'CORRUPT' });
    writeFileSync(file, text.replace('"sequence": ', '"sequence": 1'));
    const edited = { code: 'CORRUPT', message: expect.stringMatching(/checkpoint\.json was changed .*fork/) };
    await expect(restorer.restore({ file })).rejects.toMatchObject(edited);
    writeFileSync(file, '{"some":"other JSON"}');
    await expect(restorer.restore({ file })).rejects.toThrow(/checkpoint\.json is no checkpoint file/);
    writeFileSync(file, text.slice(0, 500));
    await expect(restorer.restore({ file })).rejects.toThrow(/cut off/);
    await expect(restorer.restore({ file: `${file}.gone` })).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });
});

/** What a subclass may keep besides plain data. */
class Point {
  readonly x: number;

  constructor(x: number) {
    this.x = x;
  }
}

class Walker extends StandardAgent {
  #at = new Point(3);

  override saveState() {
    return { ...super.saveState(), custom: { at: this.#at } };
  }

  override loadState(state: unknown) {
    this.#at = (state as { custom: { at: Point } }).custom.at;
    return super.loadState(state);
  }
}

test('[run.8] a file that holds instances of classes continues with their codecs', async () => {
  const encode = ({ x }: object & { x?: number }) => ({ x });
  const decode = (data: unknown) => new Point((data as { x: number }).x);
  const classes = [{ tag: 'Point', class: Point, encode, decode }];
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage(), classes });
  const registry = new AgentRegistry({ agents: { Walker: ({ name }) => new Walker({ name }) } });
  const agents = [new Walker({ name: 'ann', defaultReply: 'On.' }), new StandardAgent({ name: 'bob' })];
  const chat = new GroupChat({ agents, registry, speakerSelection: 'round_robin', maxRounds: 1 });
  const { checkpointId = '' } = await manage(chat, manager).run({ message: 'Walk.' });
  const file = join(temporaryFolder(), 'walk.json');
  writeFileSync(file, JSON.stringify(await manager.exportCheckpoint(checkpointId)));
  const restored = await new CheckpointRestorer({ manager, registry, classes }).restore({ file });
  expect(restored.chat.agent('ann')?.saveState().custom).toEqual({ at: new Point(3) });
});

describe('code', () => {
  test('[workspace.3] runs, its files are in the checkpoint, and come back with or without the conversation', async () => {
    const workDir = join(temporaryFolder(), 'work');
    mkdirSync(workDir);
    const program = "require('fs').writeFileSync('out.txt', '42'); console.log('wrote ' + 6 * 7)";
    const model = scriptedModel([`Run this:\n\`\`\`js\n${program}\n\`\`\``, 'Thanks. TERMINATE'], { id: 'coder' });
    const agents = [
      new StandardAgent({ name: 'coder', model }),
      new StandardAgent({ name: 'runner', codeExecution: { workDir, timeoutMs: 20_000 } }),
    ];
    const chat = new GroupChat({ agents, speakerSelection: 'round_robin' });
    const manager = open();
    const result = await manage(chat, manager).run({ message: 'Compute.' });
    expect(result.messages[2]).toMatchObject({
      name: 'runner',
      content: expect.stringContaining('wrote 42'),
      code: [{ exitCode: 0, language: 'js' }],
    });
    writeFileSync(join(workDir, 'out.txt'), 'spoiled');
    writeFileSync(join(workDir, 'more.txt'), 'added');
    const restorer = new CheckpointRestorer({ manager, registry: chat.registry });
    const { runner } = await restorer.planFiles(result.checkpointId ?? '');
    expect(runner?.changes.map(({ path, action }) => [path, action])).toEqual([
      ['more.txt', 'delete'],
      ['out.txt', 'change'],
    ]);
    expect(readFileSync(join(workDir, 'out.txt'), 'utf8')).toBe('spoiled');
    await restorer.restoreFiles(result.checkpointId ?? '');
    expect(readFileSync(join(workDir, 'out.txt'), 'utf8')).toBe('42');
    expect(existsSync(join(workDir, 'more.txt'))).toBe(false);
    rmSync(workDir, { recursive: true });
    mkdirSync(workDir);
    writeFileSync(join(workDir, 'mine.txt'), 'by hand');
    const options = { logs: false, rounds: 1, files: 'restore' } as const;
    const { restoredFiles } = await restorer.continue(result.checkpointId ?? '', options);
    const done = restoredFiles.runner?.done.map(({ path, action }) => `${action} ${path}`);
    expect(done).toEqual(expect.arrayContaining(['delete mine.txt', 'create out.txt']));
    expect(readFileSync(join(workDir, 'out.txt'), 'utf8')).toBe('42');
  });

  const namesIn = (folder: string) =>
    readdirSync(folder)
      .filter((name) => !name.startsWith('code-'))
      .sort();

  const spoil = async (capture: false | undefined, isThere = true) => {
    const workDir = join(temporaryFolder(), 'work');
    if (isThere) mkdirSync(workDir);
    if (isThere) writeFileSync(join(workDir, 'data.txt'), 'as given');
    const program = "require('fs').writeFileSync('data.txt', 'spoiled'); require('fs').writeFileSync('out.txt', '42')";
    const model = scriptedModel([`Run this:\n\`\`\`js\n${program}\n\`\`\``, 'Thanks. TERMINATE', 'TERMINATE'], {
      id: 'coder',
    });
    const agents = [
      new StandardAgent({ name: 'coder', model }),
      new StandardAgent({
        name: 'runner',
        codeExecution: { workDir, timeoutMs: 20_000, ...(capture === false && { capture }) },
      }),
    ];
    const chat = new GroupChat({ agents, speakerSelection: 'round_robin' });
    const manager = open();
    const { sessionId } = await manage(chat, manager).run({ message: 'Compute.' });
    expect(namesIn(workDir)).toEqual(['data.txt', 'out.txt']);
    const restorer = new CheckpointRestorer({ manager, registry: chat.registry });
    const { checkpoints } = await manager.list({ sessionId }, { limit: 100 });
    const first = checkpoints.find(({ trigger }) => trigger === 'conversation_start')?.id ?? '';
    const result = await restorer.continue(first, { logs: false, rounds: 1, files: 'restore' });
    return { workDir, result, restorer, first };
  };

  test('[workspace.3] a checkpoint before the first run of code has the files as they were then', async () => {
    const { workDir, result } = await spoil(undefined);
    expect(namesIn(workDir)).toEqual(['data.txt']);
    expect(readFileSync(join(workDir, 'data.txt'), 'utf8')).toBe('as given');
    expect(result.report).toMatchObject({ status: 'complete', differences: [] });
    const done = result.restoredFiles.runner?.done.map(({ path, action }) => `${action} ${path}`);
    expect(done).toEqual(expect.arrayContaining(['change data.txt', 'delete out.txt']));
    const without = await spoil(undefined, false);
    expect(namesIn(without.workDir)).toEqual([]);
    expect(without.result.report.status).toBe('complete');
  });

  test('[workspace.7] files of which nothing is recorded stay, and no restore of them is complete', async () => {
    const { workDir, result, restorer, first } = await spoil(false);
    expect(namesIn(workDir)).toEqual(['data.txt', 'out.txt']);
    expect(result.report).toMatchObject({
      status: 'partial',
      differences: [{ kind: 'missing', text: expect.stringContaining('was not captured') }],
    });
    expect(await restorer.restoreFiles(first)).toMatchObject({
      runner: { status: 'partial', done: [], left: [{ path: '.', reason: 'content-not-captured' }] },
    });
  });
});
