import { expect, test } from 'vitest';
import { STORAGES } from '../../../test/support/storages.ts';
import { StandardAgent } from '../../runtime/agent/standard-agent.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { scriptedModel } from '../../testing/model/scripted-model.ts';
import { CheckpointManager } from '../checkpoint-manager.ts';

const createManager = () => new CheckpointManager({ storage: new InMemoryCheckpointStorage() });

class User {
  id = 1;
  name = 'u';
}
class Order {
  id = 1;
  total = 5;
}

test.each(STORAGES)('[retention.15] on %s what follows a save of a user is of that user', async (_, create) => {
  const manager = new CheckpointManager({ storage: create().storage });
  const session = await manager.session('chat', { initial: { messages: [] as string[] } });
  await session.update((chat) => chat.messages.push('I am Ann'), { userId: 'ann' });
  const before = await session.update((chat) => chat.messages.push('Hello'));
  expect(await session.save(session.state, { ifChanged: true })).toBe(before);
  const fork = await session.fork({ edit: (chat) => void chat.messages.push('edited') });
  expect(fork.head?.userId).toBe('ann');
  expect(await manager.listByUser('ann')).toHaveLength(3);
  expect(await manager.clearUserHistory('ann')).toBe(3);
  expect((await manager.list()).checkpoints).toEqual([]);
  await session.save({ messages: ['I am Bob'] }, { userId: 'bob' });
  expect((await manager.latest())?.userId).toBe('bob');
});

test('[save.7] objects of two classes with one id do not share a history unless asked to', async () => {
  const manager = createManager();
  const [user, order] = [new User(), new Order()];
  await manager.save(user);
  await expect(manager.save(order)).rejects.toThrow('Session "1" has checkpoints of User, and this is of Order');
  await manager.save(user);
  expect((await manager.list()).checkpoints.map(({ agentType }) => agentType)).toEqual(['User', 'User']);
  await manager.save(order, { sessionId: '1' });
  await manager.save(order);
  expect((await manager.list({ sessionId: '1' })).checkpoints).toHaveLength(4);
});

test('[save.7] objects of two users with one id do not share a history unless asked to', async () => {
  const storage = new InMemoryCheckpointStorage();
  const [ann, bob] = ['ann', 'bob'].map((userId) => Object.assign(new Bot(), { userId }));
  await new CheckpointManager({ storage }).save(ann);
  const manager = new CheckpointManager({ storage });
  await expect(manager.save(bob)).rejects.toMatchObject({
    code: 'CONFLICT',
    message: expect.stringContaining('Session "bot" has checkpoints of user "ann", and this is of user "bob"'),
  });
  await expect(manager.save(new Bot(), { userId: 'bob' })).rejects.toMatchObject({ code: 'CONFLICT' });
  await manager.save(new Bot()); // who names nobody goes on, for the same user
  await manager.save(bob, { sessionId: 'bot' });
  expect((await manager.list()).checkpoints.map(({ userId }) => userId)).toEqual(['bob', 'ann', 'ann']);
});

class Bot {
  id = 'bot';
  said: string[] = [];
}

test('[save.7] of two live objects with one class and id, the one that saved last goes on', async () => {
  const manager = createManager();
  const [one, other] = [new Bot(), new Bot()];
  await manager.save(one);
  await manager.save(one);
  await manager.save(other); // as after a restart: whoever is new goes on
  await expect(manager.save(one)).rejects.toMatchObject({
    code: 'CONFLICT',
    message: expect.stringContaining('Another Bot with the id "bot" has saved to session "bot" since this one did'),
  });
  await manager.save(other);
  expect((await manager.list()).checkpoints).toHaveLength(4);
  await manager.restore({ sessionId: 'bot', at: 'main' }, { into: one });
  await manager.save(one);
  await expect(manager.save(other)).rejects.toMatchObject({ code: 'CONFLICT' });
  const [a, b] = [new User(), new User()];
  for (const user of [a, b, a, b]) await manager.save(user, { sessionId: 'both' });
  expect((await manager.list({ sessionId: 'both' })).checkpoints).toHaveLength(4);
  for (const n of [1, 2, 1]) await manager.save({ id: 'plain', n });
  expect((await manager.list({ sessionId: 'plain' })).checkpoints).toHaveLength(3);
});

test('[save.7] a save that failed, or was not awaited, does not hide who saved last', async () => {
  const manager = createManager();
  const [one, other] = [new Bot(), new Bot()];
  await manager.save(one);
  const after = Promise.reject(new Error('not yet'));
  await expect(manager.save(other, { after })).rejects.toThrow('not yet');
  await manager.save(one);
  const [a, b] = [new User(), new User()];
  await Promise.all([a, b].map((user) => manager.save(user)));
  const next = await Promise.allSettled([a, b].map((user) => manager.save(user)));
  expect(next).toMatchObject([{ reason: { code: 'CONFLICT' } }, { status: 'fulfilled' }]);
});

test('[save.7] objects that say they belong together save at once, and beside a session that is opened and closed', async () => {
  const manager = createManager();
  const place = { sessionId: 's' };
  const [user, order] = [new User(), new Order()];
  await Promise.all([manager.save(user, place), manager.save(order, place), manager.save({ n: 1 }, place)]);
  await (await manager.session('s')).close();
  await manager.save(new User(), place);
  await manager.save(user);
  expect((await manager.list(place)).checkpoints).toHaveLength(5);
});

test('[save.7] an agent of a team is known by its name wherever it is saved', async () => {
  const manager = createManager();
  await manager.save(new StandardAgent({ name: 'bot', model: scriptedModel(() => 'x', { id: 'm' }) }));
  expect((await manager.list({ agentId: 'bot' })).checkpoints).toMatchObject([{ agentId: 'bot', sessionId: 'bot' }]);
});

test('[input.4] get takes what open takes, and returns undefined where that throws NOT_FOUND', async () => {
  const manager = createManager();
  const id = await manager.save({ n: 1 }, { sessionId: 's' });
  for (const revision of [id, id.slice(0, 16), { sessionId: 's', at: 'main' }])
    expect((await manager.get(revision))?.id).toBe(id);
  for (const revision of [
    'chk_01kq00000000000000000a',
    'nothing',
    { sessionId: 't', at: 'main' },
    { sessionId: 's', at: '@~2' },
  ])
    expect(await manager.get(revision)).toBeUndefined();
  await expect(manager.get(5 as never)).rejects.toMatchObject({ code: 'INVALID_INPUT' });
});
