import { expect, test } from 'vitest';
import type { CheckpointId } from '../src/core/record/id.ts';
import { CheckpointManager } from '../src/manager/checkpoint-manager.ts';
import { CheckpointRestorer } from '../src/runtime/chat/checkpoint-restorer.ts';
import { CheckpointingGroupChatManager } from '../src/runtime/chat/checkpointing-group-chat-manager.ts';
import { FleetRestorer } from '../src/runtime/fleet/fleet-restorer.ts';
import type { CheckpointQuery } from '../src/storage/contract.ts';
import { InMemoryCheckpointStorage } from '../src/storage/memory/memory-storage.ts';
import { countReplies, createCrew, createRunner } from './fleet/crew.ts';
import { LATER } from './support/later.ts';
import { createTeam } from './support/team.ts';

/** Counts the checkpoints that are read. */
class CountingStorage extends InMemoryCheckpointStorage {
  rows = 0;

  override async listCheckpoints(query: CheckpointQuery) {
    const rows = await super.listCheckpoints(query);
    this.rows += rows.length;
    return rows;
  }

  override async readCheckpoint(id: CheckpointId) {
    this.rows++;
    return super.readCheckpoint(id);
  }
}

/** How many checkpoints are read while something is done. */
async function rowsOf(storage: CountingStorage, run: () => Promise<unknown>): Promise<number> {
  storage.rows = 0;
  await run();
  return storage.rows;
}

test('[input.4] opening a checkpoint reads one', async () => {
  const storage = new CountingStorage();
  const manager = new CheckpointManager({ storage });
  const ids: string[] = [];
  for (let n = 0; n < 20; n++) ids.push(await manager.save({ n }, { sessionId: 's' }));
  expect(await rowsOf(storage, () => manager.open(ids[19] ?? ''))).toBe(1);
});

test('[input.4] restoring a conversation reads as much after 3 rounds as after 30', LATER, async () => {
  const storage = new CountingStorage();
  const manager = new CheckpointManager({ storage });
  const [short, long] = await Promise.all(
    [3, 30].map(async (rounds) => {
      const { chat, registry } = createTeam({ maxRounds: rounds });
      const options = { chat, manager, sessionId: `team-${rounds}`, logs: false } as const;
      const { checkpointId = '' } = await new CheckpointingGroupChatManager(options).run({ message: 'Go.' });
      return { restorer: new CheckpointRestorer({ manager, registry }), id: checkpointId };
    }),
  );
  const few = await rowsOf(storage, async () => short?.restorer.restore(short.id));
  expect(few).toBeGreaterThan(0);
  expect(await rowsOf(storage, async () => long?.restorer.restore(long.id))).toBe(few);
});

test('[input.4] restoring a fleet reads as much at its end as at its beginning', async () => {
  const storage = new CountingStorage();
  const crew = createCrew({ assess: (request) => ({ satisfied: countReplies(request) >= 3 }) });
  const { runner, manager } = createRunner(crew, { storage });
  const { checkpointId = '', sessionId } = await runner.run({ task: 'Find out what is known.' });
  const all = (await manager.list({ sessionId })).checkpoints;
  const restorer = new FleetRestorer({ manager, registry: crew.registry });
  const few = await rowsOf(storage, () => restorer.restore(all.at(-1)?.id ?? ''));
  expect(all.length).toBeGreaterThan(5);
  expect(await rowsOf(storage, () => restorer.restore(checkpointId))).toBe(few);
});
