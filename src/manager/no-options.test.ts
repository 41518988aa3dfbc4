import { expect, test } from 'vitest';
import { InMemoryCheckpointStorage } from '../storage/memory/memory-storage.ts';
import { CheckpointManager } from './checkpoint-manager.ts';
import { Workers } from './workers/workers.ts';

const create = (secrets?: object) =>
  new CheckpointManager({ storage: new InMemoryCheckpointStorage(), ...(secrets && { secrets }) } as never);

test('[input.1] a call that takes no options refuses them', async () => {
  const manager = create();
  const id = await (await manager.session('s')).save({ a: 1 });
  const calls: [string, ...unknown[]][] = [
    ['load', id],
    ['open', id],
    ['get', id],
    ['compare', id, id],
    ['branches', 's'],
    ['tags', 's'],
    ['stats'],
    ['pin', id],
    ['tag', id, 'v1'],
    ['deleteSession', 's'],
    ['clearUserHistory', 'u'],
    ['exportCheckpoint', id],
  ];
  for (const [name, ...given] of calls) {
    const call = Reflect.get(manager, name) as (...given: unknown[]) => Promise<unknown>;
    await expect(call.apply(manager, [...given, { reason: 'x' }])).rejects.toThrow(`${name}() takes no options`);
  }
  expect(() => Reflect.apply(manager.exportSession, manager, ['s', { state: false }])).toThrow('takes no options');
  expect(await manager.load(id)).toEqual({ a: 1 });
  await expect(new Workers(manager).retryPoisoned('s', {} as never)).rejects.toThrow('The branch of retryPoisoned()');
});

test('[input.1] an unknown key of a member is refused', async () => {
  const member = { name: 'a', agent: { a: 1 }, bogus: 1 };
  await expect(new Workers(create()).saveGroup([member], { groupId: 'g' })).rejects.toThrow('"bogus"');
});

test.each([{ extraPattern: [] }, { extrakeys: ['pin'] }, { value: ['hunter2'] }, { values: 'hunter2' }])(
  '[input.1] the secrets %j are refused, without showing one',
  (secrets) => {
    expect(() => create(secrets)).toThrow(expect.objectContaining({ code: 'INVALID_INPUT' }));
    expect(() => create(secrets)).not.toThrow(/hunter2/);
  },
);

test.each([
  ['load', (manager: CheckpointManager, id: string) => manager.load(id)],
  ['fork', (manager: CheckpointManager, id: string) => manager.fork(id)],
  ['session', (manager: CheckpointManager, id: string) => manager.session('s', { branch: id, from: id } as never)],
  ['tag', (manager: CheckpointManager, id: string) => manager.tag(id, 'v1')],
  ['exportSession', (manager: CheckpointManager, id: string) => manager.exportSession(id).next()],
])('[input.1] %s() given a token in place of an id does not show it', async (_, call) => {
  const token = `ghp_${'Ab3'.repeat(12)}`;
  const error = await call(create(), token).then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(Error);
  expect(JSON.stringify(error) + String(error)).not.toContain(token);
});
