import fc from 'fast-check';
import { expect, test } from 'vitest';
import { drawn } from '../../../test/support/trials.ts';
import { SecretRef } from '../../core/value/secret-ref.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { StepAttempt } from '../../manager/effect/step.ts';
import type { Session } from '../../manager/session/session.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { type OpenWork, Work } from './work.ts';

/** A storage, and what was done outside, by every process on it. */
function world() {
  const storage = new InMemoryCheckpointStorage();
  const ran: [what: string, key: string][] = [];
  const failing = new Set<string>();
  return {
    ran,
    failing,
    keys: () => new Set(ran.map(([, key]) => key)).size,
    open: (branch?: string): Promise<Session> =>
      new CheckpointManager({ storage }).session('s', branch === undefined ? {} : { branch }),
    manager: () => new CheckpointManager({ storage }),
    perform:
      (what: string, result: unknown = what) =>
      ({ idempotencyKey }: StepAttempt) => {
        ran.push([what, idempotencyKey]);
        if (failing.delete(what)) throw new Error('503');
        return result;
      },
  };
}

const charge = { name: 'charge', input: { order: 17 } };
const mail = { name: 'mail', input: 'done' };

test('[effect.7] the next attempt makes only calls that did not end, with the keys they had', async () => {
  const { ran, failing, open, perform } = world();
  const work = Work.open(await open(), 'message 7');
  const { key } = work;
  failing.add('mail');
  await work.call(charge, perform('charge'));
  await expect(work.call(mail, perform('mail'))).rejects.toThrow('503');
  work.again();
  expect(work.has(charge)).toBe(true);
  expect([work.wasCalled(mail), work.has(mail)]).toEqual([true, false]);
  expect(await work.call(charge, perform('charge'))).toBe('charge');
  expect(await work.call(mail, perform('mail'))).toBe('mail');
  expect(ran.map(([what]) => what)).toEqual(['charge', 'mail', 'mail']);
  expect(ran[1]?.[1]).toBe(ran[2]?.[1]);
  expect(work.key).toBe(key);
  expect(work.record).toMatchObject({ name: 'message 7', origin: 'main', attempt: 2 });
});

test('[effect.7] equal calls are different calls in one attempt, and a failed one gives its place to the next', async () => {
  const { ran, failing, keys, open, perform } = world();
  const work = Work.open(await open(), 'w');
  const poll = { name: 'poll', input: {} };
  failing.add('poll');
  await expect(work.call(poll, perform('poll'))).rejects.toThrow('503');
  expect(await Promise.all([1, 2].map((n) => work.call(poll, perform('poll', n))))).toEqual([1, 2]);
  expect(keys()).toBe(2);
  work.again();
  const replayed = [await work.call(poll, perform('poll', 3)), await work.call(poll, perform('poll', 3))];
  expect(replayed).toEqual([1, 2]);
  expect(await work.call(poll, perform('poll', 3))).toBe(3);
  expect(ran.length).toBe(4);
});

test('[effect.7] a work goes on in another process, from the log and from a checkpoint, and on a fork with the same keys', async () => {
  const { ran, failing, open, manager, perform } = world();
  const session = await open();
  const work = Work.open(session, 'w');
  await work.call(charge, perform('charge'));
  const id = await session.save({ works: [work.record] });
  failing.add('mail');
  await expect(work.call(mail, perform('mail'))).rejects.toThrow('503');
  const resumed = await open();
  const [saved] = (resumed.state as { works: OpenWork[] }).works;
  const again = Work.open(resumed, saved ?? '');
  await again.call(charge, perform('charge'));
  await again.call(mail, perform('mail'));
  await manager().fork(id, { branch: 'fork' });
  const forked = await open('fork');
  const there = Work.open(forked, saved ?? '');
  await there.call(charge, perform('charge'));
  await there.call(mail, perform('mail'));
  expect(ran.map(([what]) => what)).toEqual(['charge', 'mail', 'mail', 'mail']);
  expect(new Set(ran.slice(1).map(([, key]) => key)).size).toBe(1);
});

test('[effect.7] after a drift what has an input is kept, each of equal ones, and steps without one run again under their key', async () => {
  const { ran, open, perform } = world();
  const work = Work.open(await open(), 'w');
  await work.call({ name: 'think' }, perform('think'));
  await work.call(charge, perform('charge'));
  for (let n = 0; n < 3; n++) await work.call({ name: 'poll', input: 1 }, perform('poll', n));
  work.again();
  const { kept, dropped } = work.afterDrift();
  expect(kept.map(({ name, result }) => [name, result])).toEqual([
    ['charge', 'charge'],
    ['poll', 0],
    ['poll', 1],
    ['poll', 2],
  ]);
  expect(dropped.map(({ name }) => name)).toEqual(['think']);
  ran.length = 0;
  await work.call(charge, perform('charge'));
  for (let n = 0; n < 3; n++) expect(await work.call({ name: 'poll', input: 1 }, perform('poll'))).toBe(n);
  expect(ran).toEqual([]);
  await work.call({ name: 'think' }, perform('think'));
  expect(ran.length).toBe(1);
});

test('[effect.7] the order of keys in an input does not matter: not after a drift, not for a call in flight, not on a fork', async () => {
  const { ran, failing, open, perform } = world();
  const [one, other] = [
    { order: { id: 17, count: 2 }, at: [1] },
    { at: [1], order: { count: 2, id: 17 } },
  ];
  const work = Work.open(await open(), 'w');
  failing.add('mail');
  await work.call({ name: 'charge', input: one }, perform('charge'));
  await expect(work.call({ name: 'mail', input: one }, perform('mail'))).rejects.toThrow('503');
  work.again();
  work.afterDrift();
  expect(await work.call({ name: 'charge', input: other }, perform('charge again'))).toBe('charge');
  await work.call({ name: 'mail', input: other }, perform('mail'));
  expect(ran.map(([what]) => what)).toEqual(['charge', 'mail', 'mail']);
  expect(ran[1]?.[1]).toBe(ran[2]?.[1]);
  const both = [one, other].map((input) => work.call({ name: 'poll', input }, perform('poll')));
  await Promise.all(both);
  expect(new Set(ran.slice(3).map(([, key]) => key)).size).toBe(2); // two calls all the same
});

test('[effect.7] what a call noted stays if one that outlived its time fails afterwards', async () => {
  const { open, perform } = world();
  const work = Work.open(await open(), 'w');
  let fail: (error: Error) => void = () => undefined;
  const late = new Promise<never>((_, reject) => {
    fail = reject;
  });
  const first = work.call(charge, () => late);
  first.catch(() => undefined);
  await new Promise(setImmediate);
  work.again();
  expect(await work.call(charge, perform('charge'))).toBe('charge');
  fail(new Error('too late'));
  await expect(first).rejects.toThrow('too late');
  work.again();
  expect(work.has(charge)).toBe(true);
  expect(await work.call(charge, perform('charge again'))).toBe('charge');
});

test('[effect.7] a call that was taken back is made anew, under another key', async () => {
  const { ran, keys, open, perform } = world();
  const work = Work.open(await open(), 'w');
  await work.call(charge, perform('charge'));
  work.undo(charge, 'refund');
  work.undo(charge, 'refund');
  work.again();
  await work.call(charge, perform('charge'));
  expect([ran.length, keys()]).toEqual([2, 2]);
  work.again();
  await work.call(charge, perform('charge'));
  expect(ran.length).toBe(2);
});

test('[effect.7] what an older version recorded under a plain name is found', async () => {
  const { ran, open, perform } = world();
  await (await open()).step('model:ann', perform('old'), { input: 'hello' });
  const work = Work.open(await open(), 'message 1');
  const asked = { kind: 'model', name: 'ann', input: 'hello' } as const;
  expect(await work.run(asked, async () => 'new')).toBe('old');
  expect(ran.length).toBe(1);
});

test('[value.5] a result that cannot be saved is in no record of the work', async () => {
  const { open } = world();
  const work = Work.open(await open(), 'w');
  await expect(work.call({ name: 'odd' }, () => ({ f: () => 1 }))).rejects.toMatchObject({ code: 'INVALID_INPUT' });
  expect(work.record.done).toEqual([]);
});

type Turn = {
  readonly calls: readonly number[];
  readonly fails: readonly number[];
  readonly end: 'again' | 'save' | 'die';
};

const turn: fc.Arbitrary<Turn> = fc.record({
  calls: fc.shuffledSubarray([0, 1, 2, 3], { minLength: 1 }),
  fails: fc.subarray([0, 1, 2, 3]),
  end: fc.constantFrom('again', 'save', 'die'),
});

test('[effect.7] attempts, saves and deaths in any order: what ended is not done again, and a call has one key', async () => {
  const property = fc.asyncProperty(fc.array(turn, { maxLength: 8 }), fc.boolean(), async (turns, isParallel) => {
    const { ran, open } = world();
    const ended = new Map<number, string>();
    const keys = new Map<number, string>();
    let session = await open();
    let work = Work.open(session, 'w');
    for (const { calls, fails, end } of turns) {
      const make = (input: number) =>
        work.call({ name: 'call', input }, ({ idempotencyKey }) => {
          expect(ended.has(input)).toBe(false);
          expect(keys.get(input) ?? idempotencyKey).toBe(idempotencyKey);
          keys.set(input, idempotencyKey);
          if (fails.includes(input)) throw new Error('503');
          ended.set(input, `result ${input}`);
          return `result ${input}`;
        });
      const check = async (input: number) =>
        expect((await make(input).catch(() => null)) ?? undefined).toBe(ended.get(input));
      if (isParallel) await Promise.all(calls.map(check));
      else for (const input of calls) await check(input);
      work.again();
      if (end === 'save') await session.save({ work: work.record });
      if (end !== 'die') continue;
      session = await open();
      work = Work.open(session, (session.state as { work: OpenWork } | undefined)?.work ?? 'w');
    }
    expect(new Set(keys.values()).size).toBe(keys.size);
    expect(ran).toEqual([]);
  });
  await fc.assert(property, drawn(300));
});

const TOKENS = [`sk_live_${'a1B2c3D4'.repeat(3)}`, `sk_live_${'z9Y8x7W6'.repeat(3)}`] as const;
const pay = (token: string) => ({ name: 'pay', input: { order: 17, token } });

test('[effect.7] calls whose inputs differ only in a secret are told apart, in any order, also by another process', async () => {
  const { ran, open, manager, perform } = world();
  const work = Work.open(await open(), 'w');
  for (const token of TOKENS) await work.call(pay(token), perform('pay', token.slice(8, 12)));
  expect(new Set(ran.map(([, key]) => key)).size).toBe(2);
  const session = await open();
  await session.save({ work: work.record }, { effects: 'of_parent' });
  const { state } = await manager().session('s');
  for (const given of ['w', (state as { work: OpenWork }).work]) {
    const again = Work.open(await open(), given);
    for (const token of TOKENS.toReversed())
      expect(await again.call(pay(token), perform('pay'))).toBe(token.slice(8, 12));
  }
  expect(ran).toHaveLength(2);
});

test('[effect.7] a call whose secrets a restore left out finds what ended with them, and what older versions noted', async () => {
  const { ran, open, perform } = world();
  const work = Work.open(await open(), 'w');
  for (const token of TOKENS) await work.call(pay(token), perform('pay', token));
  const restored = { name: 'pay', input: { order: 17, token: new SecretRef('token') } };
  const session = await open();
  for (const given of [work.record, 'w']) {
    const again = Work.open(session, given);
    expect([await again.call(restored, perform('pay')), await again.call(restored, perform('pay'))]).toEqual(
      typeof given === 'string' ? TOKENS.map(() => new SecretRef('stripe_key')) : [...TOKENS],
    );
  }
  const old = {
    ...work.record,
    done: work.record.done.slice(0, 1).map((done) => ({ ...done, digest: done.digest?.slice(0, 64) ?? null })),
  };
  const later = Work.open(session, old);
  expect(later.has(pay(TOKENS[1]))).toBe(true);
  expect(await later.call(pay(TOKENS[1]), perform('pay'))).toBe(TOKENS[0]);
  expect(later.has(pay(TOKENS[1]))).toBe(false);
  expect(ran).toHaveLength(2);
});
