import { expect, test } from 'vitest';
import { z } from 'zod';
import type { Optional } from '../../core/options.ts';
import { Checkpoint } from '../../core/record/checkpoint.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { scriptedModel } from '../../testing/model/scripted-model.ts';
import { CheckpointRestorer } from '../chat/checkpoint-restorer.ts';
import { CheckpointingGroupChatManager } from '../chat/checkpointing-group-chat-manager.ts';
import { GroupChat } from '../chat/group-chat.ts';
import type { StandardAgentOptions } from './agent-options.ts';
import { AgentRegistry } from './agent-registry.ts';
import { Orchestrator } from './auto-save.ts';
import { StandardAgent } from './standard-agent.ts';
import { defineTool } from './tool.ts';

const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });

test('[agent.5] what an agent hears without a name is from its partner, and comes back', async () => {
  const ann = new StandardAgent({ name: 'ann', defaultReply: 'Fine.' });
  ann.receive('Hello', 'user');
  ann.receive({ role: 'user', content: 'Are you there?' }, 'bob');
  const id = await manager.save(ann);
  const back = (await manager.restore(id, {
    factory: () => new StandardAgent({ name: 'ann', defaultReply: 'Fine.' }),
  })) as StandardAgent;
  expect(manager.reportOf(back)?.status).toBe('complete');
  expect(back.history('user')).toEqual([{ name: 'user', content: 'Hello' }]);
  expect(back.history('bob')).toEqual([{ name: 'bob', content: 'Are you there?' }]);
  expect((await back.reply({ role: 'user', content: 'Still?' })).content).toBe('Fine.');
});

test('[chat.1] what is said to a group without a name is from the person, and can be continued from', async () => {
  const agents = ['ann', 'bob'].map((name) => new StandardAgent({ name, defaultReply: `I am ${name}.` }));
  const chat = new GroupChat({ agents, speakerSelection: 'round_robin', maxRounds: 2 });
  const place = { manager, sessionId: 'nameless', logs: false } as const;
  const first = await new CheckpointingGroupChatManager({ chat, ...place }).run({ message: 'Hello' });
  const restorer = new CheckpointRestorer({ manager });
  const more = await restorer.continue(first.checkpointId ?? '', {
    rounds: 1,
    logs: false,
    prepare: (prepared) => prepared.append({ role: 'user', content: 'And now?' }),
  });
  expect(more.messages.at(-2)).toEqual({ name: 'user', content: 'And now?' });
  const again = await restorer.continue(more.checkpointId ?? '', { rounds: 1, logs: false });
  expect(again.newMessages).toBe(1);
});

const model = scriptedModel(() => 'Hello', { id: 'm' });
const [search, write] = ['search', 'write'].map((name) =>
  defineTool({ name, description: name, input: z.object({}), run: () => 1 }),
) as [ReturnType<typeof defineTool>, ReturnType<typeof defineTool>];
const saved: StandardAgentOptions = {
  name: 'ann',
  model,
  tools: [search],
  runtime: { store: true },
  codeExecution: { workDir: '/srv/ann' },
};

test.each<[code: string, options: Optional<StandardAgentOptions>, paths: readonly string[]]>([
  ['the same', {}, []],
  ['no opinion of flags', { runtime: undefined }, []],
  ['no model', { model: undefined }, ['model']],
  ['another model', { model: scriptedModel(() => 'x', { id: 'other' }) }, ['model']],
  ['one more tool', { tools: [search, write] }, ['tools.write']],
  ['no tool', { tools: [] }, ['tools.search']],
  ['other flags', { runtime: { store: false, checkpoint: false } }, ['runtime.store', 'runtime.checkpoint']],
  ['no code', { codeExecution: undefined }, ['codeExecution']],
  ['code switched off', { codeExecution: false }, ['codeExecution']],
  ['code in another folder', { codeExecution: { workDir: '/srv/bob' } }, ['codeExecution']],
  ['other limits of code', { codeExecution: { workDir: '/srv/ann', timeoutMs: 5 } }, ['codeExecution.timeoutMs']],
])('[agent.5] a restore names what the code has otherwise: %s', async (_, options, paths) => {
  const id = await manager.save(new StandardAgent(saved));
  const given = Object.fromEntries(Object.entries({ ...saved, ...options }).filter(([, value]) => value !== undefined));
  const ann = await manager.restore(id, { factory: () => new StandardAgent(given as StandardAgentOptions) });
  const report = manager.reportOf(ann as object);
  expect(report?.problems.map(({ path }) => path)).toEqual(paths.map((path) => `$.agents.ann.${path}`));
  expect(report?.status).toBe(paths.length === 0 ? 'complete' : 'partial');
});

test('[agent.5] code that the checkpoint does not have is named as well', async () => {
  const id = await manager.save(new StandardAgent({ name: 'bob', defaultReply: 'x' }));
  const options = { name: 'bob', defaultReply: 'x', codeExecution: { workDir: '/srv/bob' } };
  const bob = await manager.restore(id, { factory: () => new StandardAgent(options) });
  expect(manager.reportOf(bob as object)?.problems).toMatchObject([{ path: '$.agents.bob.codeExecution' }]);
});

test('[orchestrator.2] the registry of an orchestrator has what its agents need', async () => {
  const own = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  const make = (options: Partial<StandardAgentOptions>) =>
    new Orchestrator({
      agents: [new StandardAgent({ name: 'ann', ...options })],
      checkpointManager: own,
      registry: new AgentRegistry({ models: { m: model }, allowCode: ['/srv'] }),
    });
  await own.save(make({ model, codeExecution: { workDir: '/srv/ann' } }).agent('ann'));
  expect(await make({}).restore()).toMatchObject({ ann: { status: 'complete' } });
});

class ThreeMethods {
  readonly #rows = new Map<string, { readonly userId: string | undefined; readonly text: string }>();

  async save(checkpoint: Checkpoint): Promise<string> {
    this.#rows.set(checkpoint.id, { userId: checkpoint.userId, text: JSON.stringify(checkpoint) });
    return checkpoint.id;
  }

  async load(id: string): Promise<Checkpoint | null> {
    const row = this.#rows.get(id);
    return row === undefined ? null : Checkpoint.fromJSON(JSON.parse(row.text));
  }

  async listByUser(userId: string, limit: number, offset: number): Promise<Checkpoint[]> {
    const rows = [...this.#rows.values()].filter((row) => row.userId === userId).toReversed();
    return rows.slice(offset, offset + limit).map(({ text }) => Checkpoint.fromJSON(JSON.parse(text)));
  }
}

test('[orchestrator.2] restore finds agents by their user in a storage of three methods, or is refused', async () => {
  const storage = new ThreeMethods();
  const make = (userId?: string) => {
    const agent = { name: 'ann', n: 0 };
    const checkpointManager = new CheckpointManager({ storage });
    return { agent, orchestrator: new Orchestrator({ agents: [agent], checkpointManager, ...(userId && { userId }) }) };
  };
  const first = make('u');
  first.agent.n = 41;
  await first.orchestrator.flush(); // also without autoCheckpoint
  const second = make('u');
  expect(await second.orchestrator.restore()).toMatchObject({ ann: { status: 'complete' } });
  expect(second.agent.n).toBe(41);
  await expect(make().orchestrator.restore()).rejects.toMatchObject({
    code: 'UNSUPPORTED',
    message: expect.stringContaining('Give the orchestrator a userId'),
  });
  expect(await make('other').orchestrator.restore()).toEqual({});
});

test('[orchestrator.2] two agents of one id are refused, and both are named', () => {
  const agents = [
    { name: 'x', id: '1' },
    { name: 'y', id: '1' },
  ];
  expect(() => new Orchestrator({ agents, checkpointManager: manager })).toThrow(
    'The agents "x" and "y" have the same id, "1"',
  );
});

test('[restore.2] a value that a setter of the agent changes is named', async () => {
  const id = await manager.save({ id: 'set', items: [1, 2] });
  let kept: readonly number[] = [];
  const agent = {
    id: 'set',
    set items(items: readonly number[]) {
      kept = items.slice(0, 1);
    },
    get items(): readonly number[] {
      return kept;
    },
  };
  await manager.restore(id, { into: agent });
  expect(manager.reportOf(agent)).toMatchObject({ status: 'partial', problems: [{ path: '$.items' }] });
});

test('[chat.5] agents of one group are refused in another, whose conversation they would bring along', async () => {
  const agents = ['ann', 'bob'].map((name) => new StandardAgent({ name, defaultReply: `I am ${name}.` }));
  const run = (sessionId: string) => {
    const chat = new GroupChat({ agents, speakerSelection: 'round_robin', maxRounds: 1 });
    const team = new CheckpointingGroupChatManager({ chat, manager, sessionId, logs: false });
    return team.run({ message: 'My PIN is 4711' });
  };
  await run('of-ann');
  await expect(run('of-bob')).rejects.toMatchObject({
    code: 'INVALID_INPUT',
    message: expect.stringContaining('Agent "ann" has a conversation of another group'),
  });
});
