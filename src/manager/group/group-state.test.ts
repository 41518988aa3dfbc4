import { expect, test } from 'vitest';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { CheckpointManager } from '../checkpoint-manager.ts';
import { Workers } from '../workers/workers.ts';
import type { GivenChannels } from './group-member.ts';
import { findInFlight } from './group-state.ts';

function find(members: { readonly [name: string]: GivenChannels }) {
  const channels = Object.entries(members).map(([name, { sent = {}, received = {} }]) => {
    return [name, { sent: new Map(Object.entries(sent)), received: new Map(Object.entries(received)) }] as const;
  });
  return findInFlight(new Map(channels));
}

test('[group.4] what was sent and had not arrived is in flight, numbered, in the order of sending', () => {
  const found = find({
    a: { sent: { b: { count: 5, unconfirmed: ['3rd', '4th', '5th'] }, a: { count: 1, unconfirmed: ['to myself'] } } },
    b: { sent: { a: { count: 2, unconfirmed: ['1st', '2nd'] } }, received: { a: 3 } },
    c: {},
  });
  expect(found).toEqual([
    { from: 'a', to: 'a', number: 1, message: 'to myself' },
    { from: 'a', to: 'b', number: 4, message: '4th' },
    { from: 'a', to: 'b', number: 5, message: '5th' },
    { from: 'b', to: 'a', number: 1, message: '1st' },
    { from: 'b', to: 'a', number: 2, message: '2nd' },
  ]);
  expect(find({ a: { sent: { b: { count: 1, unconfirmed: ['arrived'] } } }, b: { received: { a: 1 } } })).toEqual([]);
});

test('[group.5] a message that was received but not sent, or that nobody has, names its two members and its number', () => {
  expect(() => find({ a: {}, b: { received: { a: 1 } } })).toThrow(
    /"b" received message 1 of "a", which had sent 0 by then/,
  );
  expect(() => find({ a: { sent: { b: { count: 3, unconfirmed: ['3rd'] } } }, b: { received: { a: 1 } } })).toThrow(
    /message 2 from "a" to "b" had not arrived, and "a" does not have it/,
  );
});

test('[group.5] what cannot be said of messages is refused', async () => {
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  for (const given of [
    { sent: { b: { count: -1, unconfirmed: [] } } },
    { sent: { b: { count: 1.5, unconfirmed: [] } } },
    { sent: { b: { count: 1, unconfirmed: ['1st', '2nd'] } } },
    { sent: { b: { count: 1, unconfirmed: 'first' as never } } },
    { received: { b: Number.NaN } },
    { received: { b: '1' as never } },
    { sent: { stranger: { count: 0, unconfirmed: [] } } },
    { received: { stranger: 0 } },
  ])
    await expect(
      new Workers(manager).saveGroup(
        [
          { name: 'a', agent: { id: 'a' }, ...given },
          { name: 'b', agent: { id: 'b' } },
        ],
        { groupId: 'team' },
      ),
    ).rejects.toMatchObject({ code: 'INVALID_INPUT' });
});
