import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import * as mailboxes from './mailbox.ts';
import { isKnown as isKnownIn, type MailboxState, type PendingMessage } from './mailbox.ts';

const { EMPTY_MAILBOX, addMessage, countFailure, findPending, finishMessage, nextPending, removeMessage } = mailboxes;
const { setMessageAside, takeBack } = mailboxes;

const ERROR = { name: 'Error', message: 'no' };

type Change = (mailbox: MailboxState) => MailboxState;

/** What may happen to a mailbox; ids are few, so that they meet again. */
const change: fc.Arbitrary<[what: string, id: string]> = fc.tuple(
  fc.constantFrom('add', 'add', 'add', 'finish first', 'finish first', 'finish', 'fail', 'aside', 'back', 'remove'),
  fc.integer({ min: 0, max: 40 }).map((number) => `m${number}`),
);

function changeOf([what, id]: [string, string]): Change {
  return (mailbox) => {
    const first = mailbox.pending[0]?.id ?? id;
    if (what === 'add') return addMessage(mailbox, { id, body: { of: id } });
    if (what === 'finish first') return finishMessage(mailbox, first, 1);
    if (what === 'finish') return finishMessage(mailbox, id, 1);
    if (what === 'fail') return countFailure(mailbox, id);
    if (what === 'aside') return setMessageAside(mailbox, id, { error: ERROR, atMs: 2 });
    return what === 'back' ? takeBack(mailbox, new Set([id])) : removeMessage(mailbox, id);
  };
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
  test('[loop.5] does what lists would do, and every older version stays what it was', () => {
    fc.assert(
      fc.property(fc.array(change, { maxLength: 120 }), fc.boolean(), (changes, isRead) => {
        const versions: { readonly mailbox: MailboxState; readonly expected: MailboxState }[] = [];
        let mailbox = EMPTY_MAILBOX;
        let expected = EMPTY_MAILBOX;
        for (const one of changes) {
          expected = naive(one, expected);
          mailbox = changeOf(one)(mailbox);
          if (isRead) expect(mailbox.pending).toEqual(expected.pending);
          versions.push({ mailbox, expected });
        }
        for (const version of versions) {
          expect(structuredClone(version.mailbox)).toEqual(version.expected);
          for (const { id } of version.expected.pending)
            expect(findPending(version.mailbox, id)).toEqual(version.expected.pending.find((one) => one.id === id));
          expect(nextPending(version.mailbox)).toEqual(version.expected.pending[0]);
        }
      }),
    );
  });

  test('[loop.5] goes on from an older version as if the newer ones had never been', () => {
    const two = ['a', 'b'].reduce((mailbox, id) => addMessage(mailbox, { id, body: null }), EMPTY_MAILBOX);
    const left = addMessage(two, { id: 'left', body: null });
    const right = addMessage(finishMessage(two, 'a', 1), { id: 'right', body: null });
    expect(left.pending.map(({ id }) => id)).toEqual(['a', 'b', 'left']);
    expect(right.pending.map(({ id }) => id)).toEqual(['b', 'right']);
    expect([isKnownIn(left, 'right'), isKnownIn(right, 'left'), isKnownIn(two, 'left')]).toEqual([false, false, false]);
  });

  test('[loop.5] makes no list for a message that comes, is looked for, fails, or is handled', () => {
    const WAITING = 3000;
    let mailbox = EMPTY_MAILBOX;
    let first: MailboxState | undefined;
    const lists: (readonly PendingMessage[])[] = [];
    const { slice } = Array.prototype;
    // A copy of the messages is the only thing that could be as long as the mailbox.
    Array.prototype.slice = function (this: PendingMessage[], ...args) {
      const copy = slice.apply(this, args) as PendingMessage[];
      if (copy.length > WAITING / 2 && copy.length > 1000) lists.push(copy);
      return copy;
    };
    try {
      for (let number = 0; number < WAITING; number++)
        mailbox = addMessage(mailbox, { id: `m${number}`, body: number });
      first = mailbox;
      for (let number = 0; number < WAITING / 4; number++) {
        const id = nextPending(mailbox)?.id ?? '';
        expect(findPending(mailbox, id)?.body).toBe(number);
        mailbox = finishMessage(countFailure(mailbox, id), id, number);
      }
    } finally {
      Array.prototype.slice = slice;
    }
    expect(lists).toEqual([]);
    expect(first.pending.length).toBe(WAITING);
    expect(mailbox.pending.length).toBe(WAITING - WAITING / 4);
  });

  test('[loop.5] is plain data in what is stored, frozen, and gives up what is over', () => {
    const one = addMessage(EMPTY_MAILBOX, { id: 'm1', body: { deep: [1] } });
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
    expect(addMessage(stored, { id: 'm1', body: 2 })).toBe(stored);
    expect(finishMessage(stored, 'm1', 3)).toMatchObject({ pending: [], processedCount: 1, recentIds: ['m1'] });
  });
});
