import { expect, test } from 'vitest';
import { InMemoryCheckpointStorage } from '../storage/memory/memory-storage.ts';
import { CheckpointManager } from './checkpoint-manager.ts';

test('[value.4] instances without a codec are refused, or kept and saved again as they were', async () => {
  class Money {
    readonly cents: number;
    constructor(cents: number) {
      this.cents = cents;
    }
  }
  const money = { tag: 'Money', class: Money, encode: ({ cents }: Money) => ({ cents }), decode: () => new Money(0) };
  const storage = new InMemoryCheckpointStorage();
  const owner = new CheckpointManager({ storage, classes: [money as never] });
  const id = await owner.save({ price: new Money(5), all: [new Money(1)] });
  const refused = { code: 'UNSUPPORTED', message: expect.stringContaining('"Money"') };
  await expect(new CheckpointManager({ storage }).load(id)).rejects.toMatchObject(refused);
  const tool = new CheckpointManager({ storage, unknownClasses: 'keep' });
  const copy = await tool.save(await tool.load(id), { sessionId: 'copy' });
  expect((await owner.compare(id, copy)).hasChanges).toBe(false);
  await expect(new CheckpointManager({ storage }).save(await tool.load(id))).rejects.toMatchObject({
    code: 'INVALID_INPUT',
    message: expect.stringContaining('$.price'),
  });
});
