import { expect, test } from 'vitest';
import { TestClock } from '../../../test/support/clock.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { Orchestrator } from './auto-save.ts';
import { StandardAgent } from './standard-agent.ts';

const createManager = (storage = new InMemoryCheckpointStorage()) => new CheckpointManager({ storage });

function runFor(userId: string, checkpointManager: CheckpointManager, options: object = {}) {
  const planner = new StandardAgent({ name: 'planner' });
  const parts = { agents: [planner], checkpointManager, autoCheckpoint: true, userId, ...options };
  return { planner, orchestrator: new Orchestrator(parts) };
}

test('[orchestrator.2] what was saved for another user is neither brought back nor saved over', async () => {
  const storage = new InMemoryCheckpointStorage();
  const ann = runFor('ann', createManager(storage));
  ann.planner.receive('My PIN is 1234.', 'user');
  await ann.orchestrator.close();

  const refused = { code: 'CONFLICT', message: expect.stringContaining('is of user "ann", and this orchestrator') };
  const bob = runFor('bob', createManager(storage));
  await expect(bob.orchestrator.restore()).rejects.toMatchObject(refused);
  expect(bob.planner.history('user')).toEqual([]);
  bob.planner.receive('Hello.', 'user');
  await expect(bob.orchestrator.close()).rejects.toMatchObject({ code: 'CONFLICT' });
  await expect(bob.orchestrator.checkpointManager.save(bob.planner)).rejects.toMatchObject({
    code: 'CONFLICT',
    message: expect.stringContaining('has checkpoints of user "ann", and this is of user "bob"'),
  });

  const apart = runFor('bob', createManager(storage), { sessionPrefix: 'bob/' });
  await apart.orchestrator.restore();
  apart.planner.receive('Hello.', 'user');
  await apart.orchestrator.close();
  const again = runFor('ann', createManager(storage));
  await again.orchestrator.restore();
  expect(again.planner.history('user').map(({ content }) => content)).toEqual(['My PIN is 1234.']);
});

test('[orchestrator.1] an agent that changes its name stays who it is', async () => {
  const clock = new TestClock();
  const storage = new InMemoryCheckpointStorage();
  const checkpointManager = new CheckpointManager({ storage, now: clock.now, setTimer: clock.setTimer });
  const ann = { name: 'ann', n: 0 };
  const orchestrator = new Orchestrator({ agents: [ann], checkpointManager, autoCheckpoint: true });
  await orchestrator.flush();
  Object.assign(ann, { name: 'Ann Lee', n: 1 });
  await clock.pass(1_000);
  expect(await checkpointManager.load({ sessionId: 'ann', at: 'main' })).toEqual({ name: 'Ann Lee', n: 1 });
  ann.n = 2;
  orchestrator.changed(ann);
  expect(orchestrator.track(ann)).toBe(orchestrator.agent('ann'));
  await orchestrator.close();

  const next = { name: 'ann', n: 0 };
  await new Orchestrator({ agents: [next], checkpointManager: createManager(storage) }).restore();
  expect(next).toEqual({ name: 'Ann Lee', n: 2 });
});

test('[orchestrator.2] an agent gets the manager, also where no field of its class says so', async () => {
  class Careful {
    readonly name = 'careful';
    declare checkpointManager?: CheckpointManager;
  }
  const checkpointManager = createManager();
  const careful = new Careful();
  const orchestrator = new Orchestrator({ agents: [careful], checkpointManager });
  expect(careful.checkpointManager).toBe(checkpointManager);
  await careful.checkpointManager?.save(careful);
  expect(await checkpointManager.load({ sessionId: 'careful', at: 'main' })).not.toHaveProperty('checkpointManager');
  await orchestrator.close();
});

test('[input.1] an agent that cannot be given an id is refused with what to do', () => {
  const create = (agent: { readonly name: string }) => () =>
    new Orchestrator({ agents: [agent], checkpointManager: createManager() });
  expect(create(Object.freeze({ name: 'ice' }))).toThrow('The agent "ice" is frozen');
});

test('[orchestrator.1] the session of an agent whose id is a number is that of its own saves', async () => {
  const storage = new InMemoryCheckpointStorage();
  await createManager(storage).save({ id: 7, name: 'ann', n: 5 });
  const ann = { id: 7, name: 'ann', n: 0 };
  const checkpointManager = createManager(storage);
  const orchestrator = new Orchestrator({ agents: [ann], checkpointManager, autoCheckpoint: true });
  await orchestrator.restore();
  expect(ann.n).toBe(5);
  ann.n = 6;
  await orchestrator.close();
  expect(await checkpointManager.load({ sessionId: '7', at: '@' })).toEqual({ id: 7, name: 'ann', n: 6 });
  expect((await checkpointManager.list({ agentId: 7 })).checkpoints).toHaveLength(2);
});

test('[orchestrator.1] what onSaveFailed throws or rejects with is reported, and ends nothing', async () => {
  const failures: unknown[] = [];
  const onHandlerError = (error: unknown, source: string) => failures.push([source, String(error)]);
  const throwing = () => {
    throw new Error('mine');
  };
  for (const onSaveFailed of [throwing, async () => throwing()]) {
    const checkpointManager = new CheckpointManager({ storage: new InMemoryCheckpointStorage(), onHandlerError });
    const ann: { name: string; say?: () => void } = { name: 'ann', say: () => undefined };
    const orchestrator = new Orchestrator({ agents: [ann], checkpointManager, autoCheckpoint: true, onSaveFailed });
    await expect(orchestrator.flush()).rejects.toThrow('Cannot save $.say: it is a function');
    delete ann.say;
    await orchestrator.close();
    expect(await checkpointManager.load({ sessionId: 'ann', at: '@' })).toEqual({ name: 'ann' });
  }
  const reported = ['save_failed', 'Error: mine'];
  expect(failures).toEqual([reported, reported]);
});
