import { expect, expectTypeOf, test } from 'vitest';
import { InMemoryCheckpointStorage } from '../storage/memory/memory-storage.ts';
import { CheckpointManager } from './checkpoint-manager.ts';

test('[save.1] restore and load have the type of what they are given, and of nothing else', async () => {
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  class Counter {
    id = 'counter';
    n = 1;
  }
  const id = await manager.save(new Counter());
  const made = await manager.restore(id, { factory: () => new Counter() });
  expectTypeOf(made).toEqualTypeOf<Counter>();
  expectTypeOf(await manager.restore(id, { into: made })).toEqualTypeOf<Counter>();
  // @ts-expect-error a Counter is no Date
  const wrong: Promise<Date> = manager.restore(id, { factory: () => new Counter() });
  await wrong;
  // @ts-expect-error nobody said that it is a Date
  const guessed: Date = await manager.load(id);
  expect([guessed, await manager.load<{ n: number }>({ sessionId: 'counter', at: '@' })]).toEqual([
    { id: 'counter', n: 1 },
    { id: 'counter', n: 1 },
  ]);
  const { branch } = await manager.fork(
    { sessionId: 'counter', at: 'main' },
    { edit: (state: Counter) => void state.n++ },
  );
  expect((await manager.compare(id, { sessionId: 'counter', at: branch })).changedFields).toEqual(['$.n']);
  await expect(manager.load('main')).rejects.toThrow("{ sessionId, at: 'main' }");
  await expect(manager.load({ sessionId: 'nobody', at: '@' })).rejects.toThrow('There is no branch "main"');
});
