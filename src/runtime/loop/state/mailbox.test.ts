import fc from 'fast-check';
import { describe, expect, test, vi } from 'vitest';
import { EMPTY_MAILBOX, Mailbox, type MailboxState, type PendingMessage } from './mailbox.ts';

const ERROR = { name: 'Error', message: 'no' };

/** What may happen to a mailbox; ids are few, so that they meet again. */
const changes: fc.Arbitrary<[what: string, id: string]> = fc.tuple(
  fc.constantFrom('add', 'add', 'add', 'finish first', 'finish first', 'finish', 'fail', 'aside', 'back', 'remove'),
  fc.integer({ min: 0, max: 40 }).map((number) => `m${number}`),
);

function change([what, id]: [string, string], mailbox: Mailbox): void {
  const first = mailbox.first?.id ?? id;
  if (what === 'add') mailbox.add({ id, body: { of: id } });
  else if (what === 'finish first') mailbox.finish(first, 1);
  else if (what === 'finish') mailbox.finish(id, 1);
  else if (what === 'fail') mailbox.countFailure(id);
  else if (what === 'aside') mailbox.putAside(id, { error: ERROR, atMs: 2 });
  else if (what === 'back') mailbox.takeBack(new Set([id]));
  else mailbox.remove(id);
}

/** The same in the plainest way: lists that are copied. */
function naive([what, id]: [string, string], { pending, ...rest }: MailboxState): MailboxState {
  const first = pending[0]?.id ?? id;
  const without = (gone: string) => pending.filter((message) => message.id !== gone);
  const finish = (over: string): MailboxState => ({
    pending: without(over),
    lastProcessed: { id: over, atMs: 1 },
    processedCount: rest.processedCount + 1,
    recentIds: [...rest.recentIds, over],
    setAside: rest.setAside,
  });
  const waits = (message: { id: string; body: unknown }): PendingMessage => ({ ...message, failures: 0 });
  const found = pending.find((message) => message.id === id);
  const aside = rest.setAside.find(({ message }) => message.id === id);
  const isOver = rest.recentIds.includes(id) || aside !== undefined;
  if (what === 'add' && found === undefined && !isOver)
    return { ...rest, pending: [...pending, waits({ id, body: { of: id } })] };
  if (what === 'finish first') return finish(first);
  if (what === 'finish') return finish(id);
  if (what === 'fail')
    return { ...rest, pending: pending.map((one) => (one === found ? { ...one, failures: one.failures + 1 } : one)) };
  if (what === 'aside' && found !== undefined) {
    const { failures: _, ...message } = found;
    return { ...rest, pending: without(id), setAside: [...rest.setAside, { message, error: ERROR, atMs: 2 }] };
  }
  if (what === 'back' && aside !== undefined)
    return {
      ...rest,
      pending: [...pending, waits(aside.message)],
      setAside: rest.setAside.filter((one) => one !== aside),
    };
  return what === 'remove' ? { ...rest, pending: without(id) } : { ...rest, pending };
}

describe('a mailbox', () => {
  test('[loop.5] does what lists would do, and every state that was read stays what it was', () => {
    fc.assert(
      fc.property(fc.array(changes, { maxLength: 120 }), fc.array(fc.boolean()), (made, reads) => {
        const states: { readonly state: MailboxState; readonly expected: MailboxState }[] = [];
        const mailbox = new Mailbox();
        let expected = EMPTY_MAILBOX;
        for (const [at, one] of made.entries()) {
          expected = naive(one, expected);
          change(one, mailbox);
          if (reads[at] === true) states.push({ state: mailbox.state, expected });
          expect(mailbox.first).toEqual(expected.pending[0]);
          for (const { id } of expected.pending)
            expect(mailbox.findPending(id)).toEqual(expected.pending.find((message) => message.id === id));
          if (at % 10 === 9) mailbox.load(JSON.parse(JSON.stringify(mailbox.state)));
        }
        states.push({ state: mailbox.state, expected });
        for (const read of states) expect(structuredClone(read.state)).toEqual(read.expected);
      }),
    );
  });

  test('[loop.5] makes no list for a message that comes, is looked for, fails, or is handled', () => {
    const WAITING = 3000;
    const mailbox = new Mailbox();
    const turns = () => {
      for (let number = 0; number < WAITING; number++) mailbox.add({ id: `m${number}`, body: number });
      const before = mailbox.state;
      for (let number = 0; number < WAITING / 4; number++) {
        const id = mailbox.first?.id ?? '';
        expect(mailbox.findPending(id)?.body).toBe(number);
        mailbox.countFailure(id);
        mailbox.finish(id, number);
      }
      return before;
    };
    // Only whoever goes through the map from its beginning could take as long as the mailbox is.
    const values = vi.spyOn(Map.prototype, 'values');
    const keys = vi.spyOn(Map.prototype, 'keys');
    try {
      const before = turns();
      expect(before.pending.length).toBe(WAITING);
      expect([values.mock.calls.length, keys.mock.calls.length]).toEqual([1, 0]);
    } finally {
      vi.restoreAllMocks();
    }
    expect(mailbox.state.pending.length).toBe(WAITING - WAITING / 4);
  });

  test('[loop.5] is plain data in what is stored, frozen, and gives up what is over', () => {
    const mailbox = new Mailbox();
    mailbox.add({ id: 'm1', body: { deep: [1] } });
    const one = mailbox.state;
    expect(JSON.parse(JSON.stringify(one))).toEqual({
      pending: [{ id: 'm1', body: { deep: [1] }, failures: 0 }],
      lastProcessed: null,
      processedCount: 0,
      recentIds: [],
      setAside: [],
    });
    expect(Object.keys(one)).toEqual(Object.keys(EMPTY_MAILBOX));
    expect(() => (one.pending as PendingMessage[]).push(one.pending[0] as PendingMessage)).toThrow(TypeError);
    expect(Object.isFrozen(Reflect.get(Object(one.pending[0]?.body), 'deep'))).toBe(true);
    const stored = JSON.parse(JSON.stringify(one)) as MailboxState;
    mailbox.load(stored);
    mailbox.add({ id: 'm1', body: 2 });
    expect(mailbox.state).toBe(stored);
    mailbox.finish('m1', 3);
    expect(mailbox.state).toMatchObject({ pending: [], processedCount: 1, recentIds: ['m1'] });
  });
});
