import { describe, expect, test } from 'vitest';
import { TestClock } from '../../../test/support/clock.ts';
import { STORAGES } from '../../../test/support/storages.ts';
import { StorageError } from '../../core/errors.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { Commit } from '../../storage/contract.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { scriptedModel } from '../../testing/model/scripted-model.ts';
import type { StandardAgentOptions } from './agent-options.ts';
import type { AgentState } from './agent-state.ts';
import { Orchestrator } from './auto-save.ts';
import { StandardAgent } from './standard-agent.ts';

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

class Counter {
  readonly id = 'counter-1';
  count = 0;
}

class Note {
  readonly id = 'note';
  log: string[] = [];
}

/** One run of a program: a fresh note under an orchestrator, over what the runs before left. */
function beginRun(storage = new InMemoryCheckpointStorage(), options: object = {}) {
  const checkpointManager = new CheckpointManager({ storage });
  const note = new Note();
  const parts = { agents: [note], checkpointManager, autoCheckpoint: true, userId: 'u', ...options };
  return { storage, note, checkpointManager, orchestrator: new Orchestrator(parts) };
}

describe('an agent whose session an earlier run saved', () => {
  const workOnce = async () => {
    const first = beginRun();
    first.note.log.push('work');
    await first.orchestrator.close();
    return first.storage;
  };

  test('[orchestrator.2] is not saved before it is restored, and restore brings back that run', async () => {
    const storage = await workOnce();
    for (let run = 1; run < 5; run++) {
      const { note, orchestrator } = beginRun(storage);
      await orchestrator.flush();
      orchestrator.changed(note);
      await nextTick();
      expect((await orchestrator.restore()).note?.status).toBe('complete');
      expect(note.log).toHaveLength(run);
      note.log.push('more');
      await orchestrator.close();
    }
  });

  test('[orchestrator.2] is not saved by flush and close alone, and with the first look neither', async () => {
    const storage = await workOnce();
    const clock = new TestClock();
    const checkpointManager = new CheckpointManager({ storage, now: clock.now, setTimer: clock.setTimer });
    const before = await checkpointManager.latest({ sessionId: 'note' });
    const orchestrator = new Orchestrator({ agents: [new Note()], checkpointManager, autoCheckpoint: true });
    await clock.pass(5_000);
    await orchestrator.flush();
    await orchestrator.close();
    expect((await checkpointManager.latest({ sessionId: 'note' }))?.id).toBe(before?.id);
  });

  test('[orchestrator.2] that changes before it is restored is a CONFLICT, until it is restored or saved by hand', async () => {
    const failures: unknown[] = [];
    const options = { onSaveFailed: ({ error }: { error: unknown }) => failures.push(error) };
    const storage = await workOnce();
    const early = beginRun(storage, options);
    early.note.log.push('too', 'early');
    const refused = {
      code: 'CONFLICT',
      message: expect.stringContaining('"note" changed before it was restored'),
    };
    await expect(early.orchestrator.flush()).rejects.toMatchObject(refused);
    expect(failures).toMatchObject([refused]);
    early.orchestrator.changed(early.note);
    await early.orchestrator.restore();
    expect(early.note.log).toEqual(['work']);
    await early.orchestrator.close();
    const anew = beginRun(storage);
    anew.note.log.push('anew');
    await anew.checkpointManager.save(anew.note);
    anew.note.log.push('on');
    await anew.orchestrator.close();
    const saved = await savedOf<Note>(anew.checkpointManager, 'note');
    expect(saved.map(({ log }) => log)).toEqual([['work'], ['anew'], ['anew', 'on']]);
  });
});

describe('automatic checkpointing', () => {
  test('[orchestrator.1] an object with an id and without a name is known by its id', async () => {
    const counter = new Counter();
    const { orchestrator, checkpointManager } = createWorld([], { agents: [counter] });
    counter.count = 3;
    orchestrator.changed(counter);
    await orchestrator.close();
    expect(await savedOf(checkpointManager, 'counter-1')).toMatchObject([{ count: 3 }]);
    expect(orchestrator.agent('counter-1', Counter)).toBe(counter);
    const plain = new Orchestrator({ agents: [{ name: 'plain', count: 0 }, new Counter()], checkpointManager });
    expect(plain.track({ agentId: 'more', count: 2 }).count).toBe(2);
    expect(() => createWorld([], { agents: [{ count: 1 }] })).toThrow('an object with a name, an agentId or an id');
  });

  test('[orchestrator.1] autoCheckpoint: true saves every agent on every change of its state', async () => {
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

  test('[orchestrator.1] the changes of one tick are one checkpoint, and it holds the last state of the tick', async () => {
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
    '[orchestrator.1] no state that a tick ended with is skipped, and they are stored in order (%s)',
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

  test('[orchestrator.1] autoCheckpoint is off unless it is asked for', async () => {
    const ann = agentNamed('ann');
    const { orchestrator, checkpointManager } = createWorld([ann], { autoCheckpoint: false });
    hear(ann, 'one');
    await orchestrator.close();
    expect(await checkpointManager.latest()).toBeUndefined();
  });

  test('[orchestrator.1] what has not changed is not saved again, and nothing is after close', async () => {
    const ann = agentNamed('ann');
    const { orchestrator, checkpointManager } = createWorld([ann]);
    for (let time = 0; time < 3; time++) {
      ann.setStatus('initializing');
      orchestrator.changed(ann);
      await orchestrator.flush();
    }
    expect(await savedOf(checkpointManager, 'ann')).toHaveLength(1);
    hear(ann, 'one');
    await orchestrator.close();
    hear(ann, 'two');
    orchestrator.changed(ann);
    await nextTick();
    await orchestrator.close();
    expect(await savedOf(checkpointManager, 'ann')).toHaveLength(2);
    expect(() => orchestrator.track(agentNamed('bob'))).toThrow(
      expect.objectContaining({ code: 'CLOSED', message: expect.stringContaining('"bob" was not added') }),
    );
    expect(orchestrator.track(ann)).toBe(ann);
  });

  test('[orchestrator.1] a save that fails stops nobody: it is told, and the state is stored with the next change or flush', async () => {
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

  test('[orchestrator.2] an agent saves itself before something risky with the manager the orchestrator gave it', async () => {
    const agent = new MyAgent({ name: 'mine' });
    const { orchestrator, checkpointManager } = createWorld([], { agents: [agent], autoCheckpoint: false });
    expect(agent.checkpointManager).toBe(checkpointManager);
    await agent.onRunning();
    await orchestrator.close();
    const saved = await savedOf(checkpointManager, 'mine');
    expect(saved.map(heardBy)).toEqual([['expensive operation']]);
    expect((await checkpointManager.latest())?.agentType).toBe('MyAgent');
  });

  test('[orchestrator.2] its own saves and those of the orchestrator are in one session, in order', async () => {
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
  test('[orchestrator.3] checkpoint: false agents are not saved by themselves', async () => {
    const [ann, bob] = [agentNamed('ann', { runtime: { checkpoint: false } }), agentNamed('bob')];
    const { orchestrator, checkpointManager } = createWorld([ann, bob]);
    for (const agent of [ann, bob]) hear(agent, 'one');
    await orchestrator.close();
    expect((await checkpointManager.list()).checkpoints.map(({ sessionId }) => sessionId)).toEqual(['bob']);
  });

  test('[orchestrator.3] stream decides whether words are told as they come', async () => {
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

  test('[orchestrator.3] store is kept and can be asked for; other agents get their flags from the orchestrator', () => {
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
  class Worker {
    name = 'worker';
    list = [1, 2];
    checkpointManager: CheckpointManager | undefined = undefined;
    readonly #notes = new Map<string, number>();
    note(key: string): void {
      this.#notes.set(key, this.#notes.size);
    }
  }
  class Secretive extends Worker {
    saveState(): unknown {
      return { list: this.list, has: this.checkpointManager !== undefined };
    }
  }
  class Collecting extends StandardAgent {
    collectedFields: Record<string, string> = {};
  }

  test('[orchestrator.4] flush saves every agent as it is, whatever its fields are', async () => {
    const plain = { name: 'plain', n: 0, deep: { list: [1] } };
    const [worker, secretive] = [new Worker(), Object.assign(new Secretive(), { name: 'secretive' })];
    const collecting = new Collecting({ name: 'collecting' });
    const agents = [plain, worker, secretive, collecting];
    const { orchestrator, checkpointManager } = createWorld([], { agents });
    const late = orchestrator.track({ name: 'late', n: 0 });
    await orchestrator.flush();
    plain.n++;
    plain.deep.list.push(2);
    worker.list.push(3);
    secretive.list.push(4);
    secretive.note('does not throw');
    collecting.collectedFields.email = 'ann@example.org';
    late.n++;
    await orchestrator.close();
    expect((await savedOf<object>(checkpointManager, 'plain')).at(-1)).toEqual({ ...plain });
    expect(await savedOf<object>(checkpointManager, 'worker')).toEqual([
      { name: 'worker', list: [1, 2] },
      { name: 'worker', list: [1, 2, 3] },
    ]);
    expect((await savedOf<object>(checkpointManager, 'secretive')).at(-1)).toEqual({ list: [1, 2, 4], has: true });
    expect((await checkpointManager.latest({ sessionId: 'collecting' }))?.collectedFields).toEqual({
      email: 'ann@example.org',
    });
    expect(await savedOf<object>(checkpointManager, 'late')).toHaveLength(2);
  });

  test('[orchestrator.4] agents that do not tell of their changes are looked at every second, and only changes are saved', async () => {
    const clock = new TestClock();
    const checkpointManager = new CheckpointManager({
      storage: new InMemoryCheckpointStorage(),
      now: clock.now,
      setTimer: clock.setTimer,
    });
    const plain = { name: 'plain', n: 0 };
    const orchestrator = new Orchestrator({ agents: [plain], checkpointManager, autoCheckpoint: true });
    const saved = async () => (await savedOf<{ n: number }>(checkpointManager, 'plain')).map(({ n }) => n);
    for (let second = 0; second < 4; second++) {
      plain.n = Math.floor(second / 2);
      await clock.pass(1_000);
    }
    expect(await saved()).toEqual([0, 1]);
    await orchestrator.close();
    plain.n = 9;
    await clock.pass(5_000);
    expect(await saved()).toEqual([0, 1]);
  });

  test('[orchestrator.4] an agent that says it changed is saved at the end of the turn', async () => {
    const plain = { name: 'plain', n: 0 };
    const { orchestrator, checkpointManager } = createWorld([], { agents: [plain] });
    for (plain.n = 1; plain.n < 4; plain.n++) {
      orchestrator.changed(plain);
      await nextTick();
    }
    await orchestrator.flush();
    expect((await savedOf<{ n: number }>(checkpointManager, 'plain')).map(({ n }) => n)).toEqual([1, 2, 3, 4]);
    expect(() => orchestrator.changed({ name: 'stranger' })).toThrow('"stranger" is not one of the orchestrator');
  });

  test('[orchestrator.2] checkpoints are of the user of the orchestrator, unless an agent has one of its own', async () => {
    const [ann, worker] = [agentNamed('ann'), new Worker()];
    const agents = [ann, worker, { name: 'bob', userId: 'bob' }];
    const { orchestrator, checkpointManager } = createWorld([], { agents, userId: 'u' });
    await worker.checkpointManager?.save(worker);
    await orchestrator.close();
    const { checkpoints } = await checkpointManager.list({}, { limit: 10 });
    expect(checkpoints.map(({ agentId, userId }) => `${agentId}: ${userId}`).toSorted()).toEqual([
      'ann: u',
      'bob: bob',
      'worker: u',
    ]);
  });

  test('[orchestrator.2] restore brings every agent back, and saves go on from there', async () => {
    const first = createWorld([agentNamed('ann'), agentNamed('bob')]);
    const ann = first.orchestrator.agent('ann', StandardAgent);
    hear(ann, 'one');
    await first.orchestrator.close();
    const again = agentNamed('ann');
    const { checkpointManager } = first;
    const second = new Orchestrator({ agents: [again, agentNamed('bob')], checkpointManager, autoCheckpoint: true });
    expect(Object.keys(await second.restore())).toEqual(['ann', 'bob']);
    expect(again.saveState()).toEqual(ann.saveState());
    hear(again, 'two');
    await second.close();
    expect((await savedOf(checkpointManager, 'ann')).map(heardBy)).toEqual([['one'], ['one', 'two']]);
    expect((await checkpointManager.branches('ann')).map(({ branch }) => branch)).toEqual(['main']);
  });

  test('[orchestrator.2] restore goes by the current branch, also after a rewind or a save in another one', async () => {
    const agent = { name: 'ann', n: 1 };
    const checkpointManager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
    const orchestrator = new Orchestrator({ agents: [agent], checkpointManager });
    await orchestrator.flush();
    agent.n = 2;
    await orchestrator.flush();
    const { branch } = await checkpointManager.rewind({ sessionId: 'ann', at: '@~1' });
    const again = { name: 'ann', n: 0 };
    await new Orchestrator({ agents: [again], checkpointManager }).restore();
    expect(again.n).toBe(1);
    const side = await checkpointManager.session('ann', { branch: 'main' });
    await side.save({ name: 'ann', n: 3 });
    expect(await checkpointManager.currentBranch('ann')).toBe(branch);
    await new Orchestrator({ agents: [again], checkpointManager }).restore();
    expect(again.n).toBe(1);
  });

  test('[orchestrator.2] agents have names of their own; sessions are named after ids, or a prefix and the name', async () => {
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
