// One of several processes that save to the same sessions of a file store; prints each id when it was acknowledged.
import { randomBytes } from 'node:crypto';
import { FileCheckpointStorage } from '../../dist/index.js';
import { importSource } from '../../scripts/import-source.mjs';

const { createCheckpointIds } = await importSource('core/record/id.ts');
const { Builders, commitOf, contentOf, moveBranch } = await importSource('testing/contract/builders.ts');

const [path, seed, saves] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];
const storage = new FileCheckpointStorage({ path });
const make = new Builders(seed);
// Ids of processes that share a store come from the clock and from chance, not from a seed.
const nextId = createCheckpointIds({ now: Date.now, randomBytes });

async function save(sessionId) {
  for (;;) {
    const [head] = await storage.readRefs({ sessionId, kind: 'branch', name: 'main' });
    const row = head && (await storage.readCheckpoint(head.target));
    const parent = row && { header: JSON.parse(row.body), digest: row.digest };
    const chunk = make.chunk([], JSON.stringify(`chunk ${make.random.below(20)}`));
    const checkpoint = make.checkpoint({
      id: nextId(parent?.header.id),
      sessionId,
      root: contentOf(chunk),
      ...(parent && { parent }),
    });
    try {
      await storage.commit(
        commitOf(checkpoint, {
          chunks: [chunk],
          requires: parent ? [parent.header.id] : [],
          refs: [moveBranch('main', checkpoint, head?.target ?? null)],
        }),
      );
      return checkpoint.header.id;
    } catch (error) {
      if (error.code !== 'CONFLICT') throw error;
    }
  }
}

for (let n = 0; n < saves; n++) {
  process.stdout.write(`${await save(n % 3 === 0 ? 'other' : 'shared')}\n`);
  if (n % 10 === 9) await storage.collect();
}
await storage.close();
