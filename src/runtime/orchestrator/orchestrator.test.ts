import { describe, expect, test } from 'vitest';
import { STORAGES } from '../../../test/support/storages.ts';
import { StorageError } from '../../core/errors.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { Commit } from '../../storage/contract.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory-storage.ts';
import { scriptedModel } from '../../testing/model/scripted-model.ts';
import type { AgentState } from '../agent/agent-state.ts';
import { StandardAgent, type StandardAgentOptions } from '../agent/standard-agent.ts';
import { Orchestrator } from './orchestrator.ts';

const agentNamed = (name: string, options: Partial<StandardAgentOptions> = {}) =>
  new StandardAgent({ name, defaultReply: 'Yes.', ...options });

const hear = (agent: StandardAgent, content: string) => agent.receive({ name: 'user', content }, 'user');

function createWorld(agents: StandardAgent[], options: object = {}) {
  const checkpointManager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  const orchestrator = new Orchestrator({ agents, checkpointManager, autoCheckpoint: true, ...options });
  return { orchestrator, checkpointManager };
}

/** What was saved of an agent, oldest first. */
async function savedOf<State = AgentState>(manager: CheckpointManager, sessionId: string): Promise<State[]> {
  const { checkpoints } = await manager.list({ sessionId }, { limit: 1000 });
  return Promise.all(checkpoints.toReversed().map(async ({ id }) => (await manager.load(id)) as State));
}

const nextTick = () => new Promise((resolve) => setImmediate(resolve));
const heardBy = (state: AgentState | undefined) => state?.histories.user?.map(({ content }) => content);

describe('automatic checkpointing', () => {
  test('[Q19] autoCheckpoint: true saves every agent on every change of its state', async () => {
    const [ann, bob] = [agentNamed('ann'), agentNamed('bob')];
    const { orchestrator, checkpointManager } = createWorld([ann, bob]);
    ann.setStatus('running');
    await nextTick();
    hear(ann, 'one');
    await nextTick();
    hear(bob, 'two');
    await orchestrator.flush();
    const saved = await savedOf(checkpointManager, 'ann');
    expect(saved.map((state) => [state.status, heardBy(state)])).toEqual([
      ['running', undefined],
      ['running', ['one']],
    ]);
    expect(await savedOf(checkpointManager, 'bob')).toEqual([bob.saveState()]);
    const [last] = (await checkpointManager.list({ sessionId: 'ann' })).checkpoints;
    expect(last).toMatchObject({
      type: 'auto',
      trigger: 'state_changed',
      status: 'running',
      agentId: 'ann',
      agentType: 'StandardAgent',
    });
  });

  test('[Q19] the changes of one tick are one checkpoint, and it holds the last state of the tick', async () => {
    const ann = agentNamed('ann');
    const { orchestrator, checkpointManager } = createWorld([ann]);
    for (let tick = 0; tick < 5; tick++) {
      for (let change = 0; change < 10; change++) hear(ann, `${tick}.${change}`);
      await nextTick();
    }
    await orchestrator.flush();
    const saved = await savedOf(checkpointManager, 'ann');
    expect(saved.map((state) => heardBy(state)?.at(-1))).toEqual(['0.9', '1.9', '2.9', '3.9', '4.9']);
  });

  test.each(STORAGES.filter(([name]) => name !== 'postgres'))(
    '[Q19] no state that a tick ended with is skipped, and they are stored in order (%s)',
    async (_, create) => {
      const { storage } = create();
      const checkpointManager = new CheckpointManager({ storage });
      const agents = ['a', 'b', 'c'].map((name) => agentNamed(name));
      const orchestrator = new Orchestrator({ agents, checkpointManager, autoCheckpoint: true });
      const ends = new Map<string, string[]>(agents.map(({ name }) => [name, []]));
      for (let tick = 0; tick < 40; tick++) {
        for (const agent of agents.filter((__, at) => (tick + at) % 2 === 0)) {
          hear(agent, `${tick} first`);
          queueMicrotask(() => hear(agent, `${tick} last`));
          ends.get(agent.name)?.push(`${tick} last`);
        }
        await nextTick();
      }
      await orchestrator.close();
      for (const { name } of agents) {
        const saved = await savedOf(checkpointManager, name);
        expect(saved.map((state) => heardBy(state)?.at(-1))).toEqual(ends.get(name));
      }
      await checkpointManager.close();
    },
  );

  test('[Q19] autoCheckpoint is off unless it is asked for', async () => {
    const ann = agentNamed('ann');
    const { orchestrator, checkpointManager } = createWorld([ann], { autoCheckpoint: false });
    hear(ann, 'one');
    await orchestrator.close();
    expect(await checkpointManager.latest()).toBeUndefined();
  });

  test('[Q19] what has not changed is not saved, and nothing is after close', async () => {
    const ann = agentNamed('ann');
    const { orchestrator, checkpointManager } = createWorld([ann]);
    ann.setStatus('initializing');
    await orchestrator.flush();
    expect(await checkpointManager.latest()).toBeUndefined();
    hear(ann, 'one');
    await orchestrator.close();
    hear(ann, 'two');
    orchestrator.changed(ann);
    await nextTick();
    await orchestrator.close();
    expect(await savedOf(checkpointManager, 'ann')).toHaveLength(1);
  });

  test('[Q20] a save that fails stops nobody: it is told, and the state is stored with the next change or flush', async () => {
    let isFull = true;
    class FullDisk extends InMemoryCheckpointStorage {
      override async commit(commit: Commit) {
        if (isFull) throw new StorageError('The disk is full.');
        return super.commit(commit);
      }
    }
    const checkpointManager = new CheckpointManager({ storage: new FullDisk() });
    const ann = agentNamed('ann');
    const told: unknown[] = [];
    const options = { agents: [ann], checkpointManager, autoCheckpoint: true };
    const orchestrator = new Orchestrator({ ...options, onSaveFailed: ({ error }) => told.push(error) });
    hear(ann, 'one');
    await expect(orchestrator.flush()).rejects.toThrow('The disk is full.');
    expect(told.length).toBe(orchestrator.failedSaves.length);
    expect(told).not.toEqual([]);
    isFull = false;
    await orchestrator.flush();
    expect((await savedOf(checkpointManager, 'ann')).map(heardBy)).toEqual([['one']]);
    isFull = true;
    hear(ann, 'two');
    await nextTick();
    isFull = false;
    hear(ann, 'three');
    await orchestrator.close();
    expect((await savedOf(checkpointManager, 'ann')).map(heardBy).at(-1)).toEqual(['one', 'two', 'three']);
  });
});

describe('manual checkpointing', () => {
  /** The agent of the requirement: saves itself before a risky operation. */
  class MyAgent extends StandardAgent {
    checkpointManager: CheckpointManager | undefined = undefined;

    async onRunning(): Promise<void> {
      hear(this, 'expensive operation');
      if (this.checkpointManager) await this.checkpointManager.save(this);
      hear(this, 'risky operation');
    }
  }

  test('[Q21] an agent saves itself before something risky with the manager the orchestrator gave it', async () => {
    const agent = new MyAgent({ name: 'mine' });
    const { orchestrator, checkpointManager } = createWorld([], { agents: [agent], autoCheckpoint: false });
    expect(agent.checkpointManager).toBe(checkpointManager);
    await agent.onRunning();
    await orchestrator.close();
    const saved = await savedOf(checkpointManager, 'mine');
    expect(saved.map(heardBy)).toEqual([['expensive operation']]);
    expect((await checkpointManager.latest())?.agentType).toBe('MyAgent');
  });

  test('[Q21] its own saves and those of the orchestrator are in one session, in order', async () => {
    const agent = new MyAgent({ name: 'mine' });
    const { orchestrator, checkpointManager } = createWorld([], { agents: [agent] });
    await agent.onRunning();
    await orchestrator.close();
    const { checkpoints } = await checkpointManager.list({ sessionId: 'mine' });
    const saved = await savedOf(checkpointManager, 'mine');
    expect(saved.at(-1)).toEqual(agent.saveState());
    expect(checkpoints.map(({ type }) => type).toSorted()).toContain('manual');
    expect((await checkpointManager.branches('mine')).map(({ branch }) => branch)).toEqual(['main']);
    expect((await checkpointManager.verify()).findings).toEqual([]);
  });
});

describe('runtime flags', () => {
  test('[Q22] checkpoint: false agents are not saved by themselves', async () => {
    const [ann, bob] = [agentNamed('ann', { runtime: { checkpoint: false } }), agentNamed('bob')];
    const { orchestrator, checkpointManager } = createWorld([ann, bob]);
    for (const agent of [ann, bob]) hear(agent, 'one');
    await orchestrator.close();
    expect((await checkpointManager.list()).checkpoints.map(({ sessionId }) => sessionId)).toEqual(['bob']);
  });

  test('[Q22] stream decides whether words are told as they come', async () => {
    const model = scriptedModel(() => 'Two words.', { id: 'm' });
    const agents = [true, false].map(
      (stream) => new StandardAgent({ name: `stream-${stream}`, model, runtime: { stream } }),
    );
    const words: string[] = [];
    const { orchestrator } = createWorld(agents, {
      onText: (name: string, delta: string) => words.push(`${name}: ${delta}`),
    });
    for (const { name } of agents)
      expect(await orchestrator.reply(name, 'Hello.')).toMatchObject({ name, content: 'Two words.' });
    expect(words).toEqual(['stream-true: Two ', 'stream-true: words.']);
    await orchestrator.close();
  });

  test('[Q22] store is kept and can be asked for; other agents get their flags from the orchestrator', () => {
    const counter = { name: 'counter' };
    const { orchestrator } = createWorld([], {
      agents: [agentNamed('ann', { runtime: { store: true } }), agentNamed('bob'), counter],
      runtime: { counter: { checkpoint: false } },
    });
    expect(orchestrator.runtimeOf('ann').store).toBe(true);
    expect(orchestrator.runtimeOf('bob')).toEqual({ stream: true, store: false, checkpoint: true });
    expect(orchestrator.runtimeOf('counter')).toEqual({ stream: true, store: false, checkpoint: false });
    expect(() => orchestrator.runtimeOf('nobody')).toThrow('There is no agent "nobody". There are: ann, bob, counter.');
  });
});

describe('other agents', () => {
  test('[Q23] a tracked plain object is saved when anything in it changes', async () => {
    const { orchestrator, checkpointManager } = createWorld([]);
    const counter = orchestrator.track({
      name: 'counter',
      count: 0,
      log: [] as { at: number }[],
      deep: { list: [1, 2] },
    });
    counter.count++;
    counter.log.push({ at: 1 });
    await nextTick();
    const [first] = counter.log;
    if (first !== undefined) first.at = 2;
    await nextTick();
    counter.deep.list.splice(0, 1);
    await nextTick();
    counter.deep = { list: counter.deep.list };
    delete (counter as { log?: unknown }).log;
    await orchestrator.close();
    const saved = await savedOf<object>(checkpointManager, 'counter');
    expect(saved).toEqual([
      { name: 'counter', count: 1, log: [{ at: 1 }], deep: { list: [1, 2] } },
      { name: 'counter', count: 1, log: [{ at: 2 }], deep: { list: [1, 2] } },
      { name: 'counter', count: 1, log: [{ at: 2 }], deep: { list: [2] } },
      { name: 'counter', count: 1, deep: { list: [2] } },
    ]);
  });

  test('[Q23] what cannot be noticed is told', async () => {
    class Secretive {
      readonly name = 'secretive';
      #notes = new Map<string, number>();
      note(key: string): void {
        this.#notes.set(key, this.#notes.size);
      }
      saveState(): unknown {
        return { notes: new Map(this.#notes) };
      }
    }
    const agent = new Secretive();
    const { orchestrator, checkpointManager } = createWorld([], { agents: [agent] });
    agent.note('a');
    orchestrator.changed(agent);
    await orchestrator.flush();
    expect(await savedOf<object>(checkpointManager, 'secretive')).toEqual([{ notes: new Map([['a', 0]]) }]);
    expect(() => orchestrator.changed({ name: 'stranger' })).toThrow('"stranger" is not one of the orchestrator');
  });

  test('[Q24] restore brings every agent back, and saves go on from there', async () => {
    const first = createWorld([agentNamed('ann'), agentNamed('bob')]);
    const ann = first.orchestrator.agent('ann') as StandardAgent;
    hear(ann, 'one');
    await first.orchestrator.close();
    const again = agentNamed('ann');
    const { checkpointManager } = first;
    const second = new Orchestrator({ agents: [again, agentNamed('bob')], checkpointManager, autoCheckpoint: true });
    expect(Object.keys(await second.restore())).toEqual(['ann']);
    expect(again.saveState()).toEqual(ann.saveState());
    hear(again, 'two');
    await second.close();
    expect((await savedOf(checkpointManager, 'ann')).map(heardBy)).toEqual([['one'], ['one', 'two']]);
    expect((await checkpointManager.branches('ann')).map(({ branch }) => branch)).toEqual(['main']);
  });

  test('[Q24] agents have names of their own; sessions are named after ids, or a prefix and the name', async () => {
    const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
    const pair = () => new Orchestrator({ agents: [agentNamed('ann'), agentNamed('ann')], checkpointManager: manager });
    expect(pair).toThrow('Two agents have the name "ann".');
    const named = { name: 'bob', agentId: 'bob-7', n: 0 };
    const orchestrator = new Orchestrator({
      agents: [agentNamed('ann'), named],
      checkpointManager: manager,
      autoCheckpoint: true,
      sessionPrefix: 'team/',
    });
    hear(orchestrator.agent('ann') as StandardAgent, 'one');
    orchestrator.changed(named);
    await orchestrator.close();
    const { checkpoints } = await manager.list();
    expect(checkpoints.map(({ sessionId }) => sessionId).toSorted()).toEqual(['bob-7', 'team/ann']);
  });
});
