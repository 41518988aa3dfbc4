import { describe, expect, test } from 'vitest';
import type { CheckpointManager } from '../../src/manager/checkpoint-manager.ts';
import { formatTombstone, parseRow } from '../../src/manager/engine/records.ts';
import type { PostgresCheckpointStorage } from '../../src/storage/postgres/postgres-storage.ts';
import { freshSchema } from '../support/postgres.ts';
import { openProxied } from '../support/proxied-postgres.ts';
import { takeSnapshot } from '../support/snapshot.ts';

const OPTIONS = { schema: freshSchema(), retryForMs: 5_000, timeoutMs: 2_000 };

type Begun = { readonly manager: CheckpointManager; readonly storage: PostgresCheckpointStorage };

/** Brings a session about, and answers the call whose replies get lost; that answers what is the same in every run. */
type Operation = (begun: Begun) => Promise<() => Promise<unknown>>;

const started = async ({ manager }: Begun) => {
  const session = await manager.session('chat');
  const first = await session.save({ messages: ['one'] });
  const second = await session.save({ messages: ['one', 'two'] });
  return { session, first, second };
};

const OPERATIONS: readonly [name: string, operation: Operation][] = [
  [
    'the first save of a session',
    async ({ manager }) => {
      const session = await manager.session('chat');
      return () => session.save({ messages: ['one'] }).then(() => session.head?.sequence);
    },
  ],
  [
    'a save',
    async (begun) => {
      const { session } = await started(begun);
      return () => session.save({ messages: ['one', 'two', 'three'] }).then(() => session.head?.sequence);
    },
  ],
  [
    'a save with a key, and the save after it',
    async (begun) => {
      const { session } = await started(begun);
      return async () => {
        await session.save({ messages: ['keyed'] }, { idempotencyKey: 'k' });
        await session.save({ messages: ['next'] });
        return session.head?.sequence;
      };
    },
  ],
  [
    'a save that repeats a key',
    async (begun) => {
      const { session } = await started(begun);
      const id = await session.save({ messages: ['keyed'] }, { idempotencyKey: 'k' });
      return async () => (await session.save({ messages: ['keyed'] }, { idempotencyKey: 'k' })) === id;
    },
  ],
  [
    'a save of many chunks',
    async (begun) => {
      const { session } = await started(begun);
      const messages = Array.from({ length: 2_000 }, (_, at) => `message ${at}`.repeat(20));
      return () => session.save({ messages }).then(() => session.head?.sequence);
    },
  ],
  [
    'saves of many sessions at once',
    async ({ manager }) => {
      const sessions = await Promise.all(Array.from({ length: 24 }, (_, at) => manager.session(`chat-${at}`)));
      for (const [at, session] of sessions.entries()) await session.save({ at });
      return async () => {
        await Promise.all(sessions.map((session, at) => session.save({ at, again: true })));
        return sessions.map(({ head }) => head?.sequence);
      };
    },
  ],
  [
    'a step',
    async (begun) => {
      const { session } = await started(begun);
      let runs = 0;
      return async () => [await session.step('pay', () => ++runs), await session.step('tell', () => 'told'), runs];
    },
  ],
  [
    'a lease, and a save under it',
    async (begun) => {
      const { session } = await started(begun);
      return async () => {
        const lease = await session.lease({ renew: 'manual' });
        await session.save({ messages: ['leased'] });
        return [lease.isHeld, session.head?.sequence];
      };
    },
  ],
  ['a tag', async (begun) => tagged(begun)],
  [
    'taking a tag away',
    async (begun) => {
      await (await tagged(begun))();
      return () => begun.manager.untag('chat', 'release');
    },
  ],
  [
    'a pin',
    async (begun) => {
      const { first } = await started(begun);
      return async () => (await begun.manager.pin(first)) === first;
    },
  ],
  [
    'a fork',
    async (begun) => {
      const { first } = await started(begun);
      return async () => (await begun.manager.fork(first)).branch;
    },
  ],
  [
    'a fork with an edit',
    async (begun) => {
      const { first } = await started(begun);
      return async () => (await begun.manager.fork(first, { edit: () => ({ messages: [] }) })).branch;
    },
  ],
  [
    'a rewind',
    async (begun) => {
      const { first } = await started(begun);
      return async () => (await begun.manager.rewind(first)).branch;
    },
  ],
  [
    'deleting a checkpoint',
    async (begun) => {
      const { first } = await started(begun);
      return () => begun.manager.delete(first);
    },
  ],
  [
    'deleting checkpoints, of which one is protected',
    async ({ storage, ...begun }) => {
      const { first, second } = await started({ storage, ...begun });
      const rows = await storage.listCheckpoints({ limit: 2, order: 'oldest' });
      const deletions = rows.map((row) => ({ id: row.id, body: formatTombstone(parseRow(row), 1, 'old') }));
      return async () => (await storage.deleteCheckpoints(deletions)).map((id) => [id === first, id === second]);
    },
  ],
  [
    'deleting a session',
    async (begun) => {
      await started(begun);
      return () => begun.manager.deleteSession('chat');
    },
  ],
  [
    'deleting a session that is not there',
    async (begun) => {
      await started(begun);
      return () => begun.storage.deleteSession('other' as never);
    },
  ],
  [
    'opening a session and loading its state',
    async (begun) => {
      await started(begun);
      return async () => (await begun.manager.session('chat')).state;
    },
  ],
];

async function tagged(begun: Begun): Promise<() => Promise<unknown>> {
  const { first } = await started(begun);
  return async () => (await begun.manager.tag(first, 'release')) === first;
}

/** What a call answers and leaves behind. `lostReply` is the one that its caller never gets, counted from 0. */
async function perform(operation: Operation, lostReply?: number) {
  const begun = await openProxied(OPTIONS);
  const run = await operation(begun);
  if (lostReply !== undefined) begun.proxy.cutOnNextReply({ skip: lostReply });
  let answer: unknown;
  const { roundTrips } = await begun.proxy.countDuring(async () => {
    answer = await run();
  });
  begun.proxy.disarm();
  const { findings } = await begun.observer.verify({ readData: true });
  return { roundTrips, outcome: { answer, snapshot: await takeSnapshot(begun.observed), findings } };
}

describe('a reply that is lost', () => {
  test.each(OPERATIONS)('[postgres.1] changes neither answer nor outcome of %s', async (_, operation) => {
    const { roundTrips, outcome } = await perform(operation);
    expect(outcome.findings).toEqual([]);
    for (let lost = 0; lost < roundTrips; lost++) expect((await perform(operation, lost)).outcome).toEqual(outcome);
  });
});
