import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, expectTypeOf, test, vi } from 'vitest';
import { z } from 'zod';
import { STORAGES } from '../../../test/support/storages.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { faultyStorage } from '../../testing/faulty-storage.ts';
import { CheckpointManager } from '../checkpoint-manager.ts';
import type { Session } from './session.ts';

type Chat = { messages: string[]; done?: boolean };
const initial: Chat = { messages: [] };
const schema = z.object({ messages: z.array(z.string()), done: z.boolean().optional() });

const open = () => new CheckpointManager({ storage: new InMemoryCheckpointStorage() });

/** A session with a checkpoint after each of these messages. */
async function chatOf(manager: CheckpointManager, ...messages: string[]): Promise<Session<Chat>> {
  const session = await manager.session<Chat>('s', { initial });
  for (const message of messages) await session.update((chat) => chat.messages.push(message));
  return session;
}

test.each(STORAGES)(
  '[input.1] an error names the line of the caller, also out of a queue or a deep state: %s',
  async (_, create) => {
    const manager = new CheckpointManager({ storage: create().storage });
    const [first, second] = [await manager.session('s'), await manager.session('s')];
    const headId = await first.save({ n: 1 });
    await manager.fork(headId, { branch: 'taken' });
    let deep: unknown = () => 1;
    for (let depth = 0; depth < 20; depth++) deep = { deep };
    const calls = [
      () => first.save(deep),
      () => first.update((state) => Object.assign(state as object, { deep })),
      () => second.save({ n: 2 }),
      () => manager.fork(headId, { branch: 'taken' }),
      () => manager.save({ id: 'a', deep }),
    ];
    for (const call of calls) {
      const error = await (async function caller(): Promise<unknown> {
        try {
          return await call();
        } catch (caught) {
          return caught;
        }
      })();
      expect(error).toMatchObject({ stack: expect.stringContaining('session.test.ts') });
    }
    await manager.close();
  },
);

describe('another writer', () => {
  test.each([['was begun'], ['moved from', 'a']])(
    '[save.3] the conflict says what to do: %s',
    async (change, ...before) => {
      const manager = open();
      await chatOf(manager, ...before);
      const [first, second] = [
        await manager.session<Chat>('s', { initial }),
        await manager.session<Chat>('s', { initial }),
      ];
      await first.update((chat) => chat.messages.push('b'));
      for (const late of [() => second.update((chat) => chat.messages.push('c')), () => second.save()]) {
        const error = await late().catch((thrown: unknown) => thrown);
        expect(error).toMatchObject({ code: 'CONFLICT', details: { kind: 'branch', name: 'main' } });
        for (const words of ['writes session "s"', change, 'manager.session(id)', 'session.lease()'])
          expect(String(error)).toContain(words);
      }
      const again = await manager.session<Chat>('s', { initial });
      await again.update((chat) => chat.messages.push('c'));
      expect(again.state.messages.slice(-2)).toEqual(['b', 'c']);
    },
  );
});

describe('state', () => {
  test('[session.8] is the initial one, copied, and afterwards what was saved', async () => {
    const manager = open();
    const session = await manager.session<Chat>('s', { initial });
    expectTypeOf(session.state).toEqualTypeOf<Chat>();
    expect([session.isResumed, session.state]).toEqual([false, { messages: [] }]);
    session.state.messages.push('a');
    await session.save();
    expect(initial).toEqual({ messages: [] });
    await session.save({ messages: ['b'] }, { type: 'auto' });
    const again = await manager.session<Chat>('s', { initial });
    expect([again.isResumed, again.state, again.head?.type]).toEqual([true, { messages: ['b'] }, 'auto']);
  });

  test('[session.8] has no type, and is undefined, for those who give none', async () => {
    const session = await open().session('s');
    expectTypeOf(session.state).toEqualTypeOf<unknown>();
    expect(session.state).toBeUndefined();
    await session.save(undefined);
    expect(session.head?.sequence).toBe(1);
  });

  test('[secret.1] the report of a resumed session names what was left out', async () => {
    const manager = open();
    await (await manager.session('s', { initial: { n: 1, secret: 'the word is apple' } })).save();
    const again = await manager.session('s');
    expect(manager.reportOf(again)).toMatchObject({ status: 'partial', problems: [{ path: '$.secret' }] });
    await (await manager.session('t', { initial: { n: 1 } })).save();
    expect(manager.reportOf(await manager.session('t'))).toMatchObject({ status: 'complete' });
  });

  test('[session.8] a state is not replaced by undefined, which a misspelt field is', async () => {
    const session = await open().session<{ n: number }>('s', { initial: { n: 1 } });
    const result: { state?: { n: number } } = {};
    await expect(session.save(result.state as { n: number })).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      message: expect.stringContaining('save() saves session.state'),
    });
    await session.save();
    expect([session.state, session.head?.sequence]).toEqual([{ n: 1 }, 1]);
  });

  test('[session.8] a schema gives it its type, and refuses what does not fit by path and checkpoint', async () => {
    const manager = open();
    await (await manager.session('s')).save({ messages: ['a', 3] });
    const id = (await manager.latest())?.id;
    const asked = manager.session('s', { schema, initial });
    expectTypeOf(asked).resolves.toEqualTypeOf<Session<z.infer<typeof schema>>>();
    await expect(asked).rejects.toMatchObject({
      code: 'UNSUPPORTED',
      message: expect.stringContaining(`checkpoint ${id} does not fit the schema: $.messages[1]: `),
      details: { checkpointId: id, problems: [expect.objectContaining({ path: '$.messages[1]' })] },
    });
    await expect(manager.session('new', { schema })).rejects.toMatchObject({ code: 'NOT_FOUND' });
    const loose = z.object({ messages: z.array(z.unknown()), title: z.string().default('none') });
    const session = await manager.session('s', { schema: loose });
    expect(session.state).toEqual({ messages: ['a', 3], title: 'none' });
    expect((await session.load('@')).title).toBe('none');
    // @ts-expect-error a type alone says nothing of a session that is new
    await manager.session<Chat>('other');
    for (const given of [3, { '~standard': {} }]) {
      const bad = { schema: given } as unknown as { schema: typeof schema };
      await expect(manager.session('s', bad)).rejects.toThrow('"schema" of session() must be a Standard Schema');
    }
  });
});

test('[session.8] what does not fit the schema is not stored, neither at the beginning nor later', async () => {
  const manager = open();
  const small = z.object({ n: z.number().max(3), tag: z.string().default('none') });
  const refused = { code: 'INVALID_INPUT', message: expect.stringContaining('does not fit the schema: $.n: ') };
  await expect(manager.session('s', { schema: small, initial: { n: 9, tag: '' } })).rejects.toMatchObject(refused);
  const session = await manager.session('s', { schema: small, initial: { n: 1 } as z.infer<typeof small> });
  expect(session.state).toEqual({ n: 1, tag: 'none' });
  await session.save();
  await expect(session.update((state) => ({ ...state, n: 99 }))).rejects.toMatchObject(refused);
  await expect(session.save({ n: 99, tag: '' })).rejects.toMatchObject(refused);
  expect([session.state.n, (await manager.session('s', { schema: small })).state.n]).toEqual([1, 1]);
  await session.update((state) => void state.n++);
  expect(await session.load('@')).toEqual({ n: 2, tag: 'none' });
  await expect(session.find('@~99999999999999999999')).rejects.toThrow('it has 1 before it');
});

test.each([
  [undefined, 'undefined'],
  ['fine', '"fine"'],
  [{}, 'an object'],
  [{ issues: 'bad' }, 'an object'],
  [{ issues: [null] }, 'an object'],
  [{ issues: [{ message: 'bad', path: [null] }] }, 'an object'],
])('[session.8] a schema that returns %j is refused with what it returned', async (result, found) => {
  const schema = { '~standard': { version: 1 as const, vendor: 'own', validate: () => result as never } };
  await expect(open().session('s', { schema, initial: { n: 1 } })).rejects.toMatchObject({
    code: 'INVALID_INPUT',
    message: expect.stringContaining(`The schema returned ${found}. `),
  });
});

test('[session.8] a rewind or fork to what the schema refuses makes no branch', async () => {
  const manager = open();
  const loose = await manager.session('s', { initial: {} as object });
  await loose.save(); // does not fit
  await loose.save({ n: 1 });
  await loose.save({ n: 2 });
  const session = await manager.session('s', { schema: z.object({ n: z.number() }) });
  await expect(session.rewind('@~2')).rejects.toMatchObject({ code: 'UNSUPPORTED' });
  await expect(session.fork({ at: '@~2' })).rejects.toMatchObject({ code: 'UNSUPPORTED' });
  const edit = [{ op: 'replace', path: '/n', value: 'two' }] as const;
  const refused = {
    code: 'INVALID_INPUT',
    message: expect.stringContaining('The edited state does not fit the schema'),
  };
  await expect(session.rewind('@~1', { edit })).rejects.toMatchObject(refused);
  await expect(session.fork({ edit })).rejects.toMatchObject(refused);
  expect([await manager.currentBranch('s'), (await manager.branches('s')).length]).toEqual(['main', 1]);
  await session.rewind('@~2', { edit: (state) => ({ ...state, n: 0 }) }); // an edit that makes it fit
  expect([session.branch, session.state]).toEqual(['rewind-1', { n: 0 }]);
});

describe('update', () => {
  test('[session.9] changes and saves, and leaves a frozen state that shares what did not change', async () => {
    const manager = open();
    const session = await manager.session('s', { initial: { a: { n: 1 }, b: { n: 1 } } });
    await session.update((state) => void state.a.n++);
    const before = session.state;
    await session.update((state) => void state.a.n++, { trigger: 'counted' });
    expect(session.state).toEqual({ a: { n: 3 }, b: { n: 1 } });
    expect(session.state.b).toBe(before.b);
    expect(() => void session.state.b.n++).toThrow(TypeError);
    expect([session.head?.sequence, session.head?.trigger]).toEqual([2, 'counted']);
  });

  test('[session.9] one that throws, is async or cannot be saved changes nothing', async () => {
    const session = await chatOf(open(), 'a');
    await expect(
      session.update((chat) => {
        chat.messages.push('b');
        throw new Error('no');
      }),
    ).rejects.toThrow('no');
    // @ts-expect-error: the type refuses it, too
    await expect(session.update(async (chat) => chat.messages.push('b'))).rejects.toThrow('must not be async');
    await expect(session.update((chat) => Object.assign(chat, { bad: () => 1 }))).rejects.toThrow('$.bad');
    expect([session.state, session.head?.sequence]).toEqual([{ messages: ['a'] }, 1]);
    const text = await open().session('t', { initial: 'text' });
    await expect(text.update(() => undefined)).rejects.toThrow('found "text"');
  });

  test('[session.9] a new state that the function returns is taken, as an edit of a fork is', async () => {
    const manager = open();
    const session = await manager.session('s', { initial: { t: 'a', list: [{ n: 1 }], inner: {} } });
    const warn = vi.spyOn(console, 'warn');
    await session.update((state) => ({ ...state, t: 'b' }));
    await session.update(() => ({ t: 'b', list: [{ n: 1 }], inner: {} }));
    expect(warn).not.toHaveBeenCalled(); // the library that makes drafts has advice of its own
    expect(session.state).toEqual({ t: 'b', list: [{ n: 1 }], inner: {} });
    await session.update((state) => state.list.splice(0, 1));
    expect(await session.load('@')).toEqual({ t: 'b', list: [], inner: {} });
    for (const change of [
      (state: object) => Object.assign({}, Object.assign(state, { t: 'c' }), { list: [] }),
      () => ['c'],
    ]) {
      const both = { code: 'INVALID_INPUT', message: expect.stringContaining('Change what it is given') };
      await expect(session.update(change)).rejects.toMatchObject(both);
      await expect(session.fork({ edit: change as () => never })).rejects.toMatchObject(both);
    }
    expect([session.state.t, session.head?.sequence]).toEqual(['b', 3]);
  });

  test('[session.9] a change that makes a cycle or an endless depth is refused, and the state stays', async () => {
    const session = await open().session<{ self?: unknown }>('s', { initial: {} });
    let deep: unknown = {};
    for (let level = 0; level < 50_000; level++) deep = { deep };
    const plain: { self?: unknown } = {};
    plain.self = plain;
    for (const itself of [undefined, plain, deep]) {
      const change = (draft: { self?: unknown }) => Object.assign(draft, { self: itself ?? draft });
      await expect(session.update(change)).rejects.toMatchObject({
        code: 'INVALID_INPUT',
        message: expect.stringContaining('cycle'),
      });
    }
    expect(session.state).toEqual({});
  });

  test('[session.9] the promise of an async function is refused, and does not end the process', async () => {
    const session = await chatOf(open(), 'a');
    const unhandled: unknown[] = [];
    const note = (error: unknown) => void unhandled.push(error);
    process.on('unhandledRejection', note);
    const change = async (chat: Chat) => {
      await Promise.resolve();
      chat.messages.push('b');
    };
    // @ts-expect-error A returned state has every field.
    void (() => session.update(() => ({})));
    await expect(session.update(change as () => unknown)).rejects.toThrow('must not be async');
    await new Promise((resolve) => setImmediate(resolve));
    process.off('unhandledRejection', note);
    expect([unhandled, session.state]).toEqual([[], { messages: ['a'] }]);
  });

  test('[session.9] when one is not stored, those that were called on top of it are not either', async () => {
    const storage = faultyStorage(new InMemoryCheckpointStorage(), { commits: { 2: 'fails' } });
    const session = await chatOf(new CheckpointManager({ storage }), 'a');
    const outcomes = await Promise.allSettled(
      ['b', 'c', 'd'].map((message) => session.update((chat) => chat.messages.push(message))),
    );
    expect(outcomes.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected']);
    expect(session.state).toEqual({ messages: ['a'] });
    await session.update((chat) => chat.messages.push('b'));
    expect(await session.load('@')).toEqual({ messages: ['a', 'b'] });
  });
});

describe('with a session in hand', () => {
  test('[session.10] revisions name checkpoints of it, everywhere', async () => {
    const session = await chatOf(open(), 'a', 'b', 'c');
    const before = await session.load('@~2');
    expectTypeOf(before).toEqualTypeOf<Chat>();
    expect(before).toEqual({ messages: ['a'] });
    expect(await session.load('message 2')).toEqual({ messages: ['a', 'b'] });
    expect((await session.history({ limit: 2 })).map(({ sequence }) => sequence)).toEqual([3, 2]);
    expect((await session.history({ from: '@~2' })).map(({ sequence }) => sequence)).toEqual([1]);
    expect((await session.diff('@~2')).changedFields).toEqual(['$.messages[1]', '$.messages[2]']);
    expect((await session.diff()).changedFields).toEqual(['$.messages[2]']);
    await session.tag('v1', '@~1');
    expect((await session.diff('v1', 'main')).added).toHaveLength(1);
    await expect(session.load('mian')).rejects.toThrow('There is no checkpoint "mian". A revision is');
    const fresh = await open().session('new');
    expect(await fresh.history()).toEqual([]);
    await expect(fresh.load('@')).rejects.toThrow('has no checkpoint yet');
  });

  test('[session.10] a fork is a session on a branch of its own, with the edited state', async () => {
    const session = await chatOf(open(), 'a', 'b');
    const other = await session.fork({ at: '@~1', edit: (chat) => void chat.messages.push('B'), reason: 'what if' });
    expectTypeOf(other).toEqualTypeOf<Session<Chat>>();
    expect([other.branch, other.state, other.isResumed]).toEqual(['fork-1', { messages: ['a', 'B'] }, true]);
    expect(other.head?.reason).toBe('what if');
    await other.update((chat) => chat.messages.push('C'));
    expect([session.branch, session.state, session.head?.sequence]).toEqual(['main', { messages: ['a', 'b'] }, 2]);
    expect((await session.diff('@', 'fork-1')).hasChanges).toBe(true);
    const pushed = await session.fork({ edit: (chat) => chat.messages.push('x') as unknown as undefined });
    expect(pushed.state.messages).toEqual(['a', 'b', 'x']);
    await expect(session.fork({ form: '@' } as object)).rejects.toThrow('"form" is not an option of session.fork()');
  });

  test('[session.10] rewind goes on from before in the same session, and undo takes that back', async () => {
    const manager = open();
    const session = await chatOf(manager, 'a', 'b', 'c');
    await session.rewind('@~2');
    expect([session.branch, session.state]).toEqual(['rewind-1', { messages: ['a'] }]);
    await session.update((chat) => chat.messages.push('B'));
    await session.rewind('@~1');
    expect((await manager.session('s')).branch).toBe('rewind-1-2');
    await session.undo();
    expect([session.branch, session.state]).toEqual(['rewind-1', { messages: ['a', 'B'] }]);
    await session.undo();
    expect([session.branch, session.state]).toEqual(['main', { messages: ['a', 'b', 'c'] }]);
    expect((await manager.session('s')).branch).toBe('main');
    await expect(session.undo()).rejects.toThrow('There is nothing to undo');
    const lease = await session.lease();
    await expect(session.rewind('@~1')).rejects.toThrow('Release the lease first');
    await lease.release();
    await session.rewind('@~1');
    expect(session.state).toEqual({ messages: ['a', 'b'] });
  });

  test('[retention.14] prune of a session is for this session only', async () => {
    const manager = open();
    const session = await chatOf(manager, 'a', 'b', 'c');
    await manager.save({ n: 1 }, { sessionId: 'other' });
    const { deleted } = await session.prune({ policy: { keepLast: 1 } });
    expect(deleted).toHaveLength(2);
    expect((await manager.list()).checkpoints).toHaveLength(2);
    await expect(session.prune({ keepLast: 1 } as object)).rejects.toThrow('policy.keepLast');
  });

  test.each(STORAGES)('[session.10] nothing is done to a checkpoint of another session: %s', async (_, create) => {
    const manager = new CheckpointManager({ storage: create().storage });
    const session = await chatOf(manager, 'a', 'b');
    await session.rewind('@~1');
    await session.undo(); // a branch of the name that the next rewind would have
    const other = await manager.session('other', { initial });
    const id = await other.update((chat) => chat.messages.push('theirs'));
    await other.update((chat) => chat.messages.push('more'));
    const error = { code: 'INVALID_INPUT', message: expect.stringContaining('is of session "other"') };
    await expect(session.rewind(id)).rejects.toMatchObject(error);
    await expect(session.fork({ at: id })).rejects.toMatchObject(error);
    await expect(session.tag('x', id)).rejects.toMatchObject(error);
    await expect(manager.rewind({ sessionId: 's', at: id })).rejects.toMatchObject(error);
    expect(await session.load(id)).toEqual({ messages: ['theirs'] });
    const branches = (await manager.branches('other')).map(({ branch }) => branch);
    expect([branches, await manager.tags('other')]).toEqual([['main'], []]);
    expect((await manager.session('other')).state).toEqual({ messages: ['theirs', 'more'] });
  });

  test('[session.9] what a draft cannot follow is refused in our words', async () => {
    const session = await open().session('s', { initial: { list: [1], inner: {} } });
    for (const change of [
      (draft: { list: object }) => void Object.assign(draft.list, { extra: 1 }),
      (draft: { inner: object }) => void Object.defineProperty(draft.inner, 'n', { get: () => 1 }),
      (draft: { inner: object }) => void Object.setPrototypeOf(draft.inner, null),
    ])
      await expect(session.update(change)).rejects.toMatchObject({
        code: 'INVALID_INPUT',
        message: expect.stringContaining('update() cannot make this change'),
      });
    expect(session.state).toEqual({ list: [1], inner: {} });
  });

  test('[session.9] what the function of update saves itself is not taken back', async () => {
    const manager = open();
    const session = await chatOf(manager, 'a');
    let inner: Promise<string> | undefined;
    const outer = session.update((chat) => {
      inner = session.update((draft) => draft.messages.push('inner'));
      chat.messages.push('outer');
    });
    await expect(outer).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    expect(await inner).toBe(session.head?.id);
    expect(session.state).toEqual({ messages: ['a', 'inner'] });
    await session.update((chat) => chat.messages.push('after'));
    expect(session.state).toEqual({ messages: ['a', 'inner', 'after'] });
  });
});

test('[save.1] manager.save of a session saves its state, and nothing of the object', async () => {
  const manager = open();
  const session = await manager.session<Chat>('s', { initial });
  session.state.messages.push('a');
  const id = await manager.save(session, { trigger: 'by hand' });
  expect([await manager.load(id), session.head?.id, session.head?.trigger]).toEqual([
    { messages: ['a'] },
    id,
    'by hand',
  ]);
  expect(session.head?.metadata).toEqual((await manager.get(id))?.metadata);
  await session.update((chat) => chat.messages.push('b'));
  await expect(manager.save(session, { sessionId: 'other' })).rejects.toMatchObject({ code: 'INVALID_INPUT' });
  await expect(manager.restore(id, { into: session })).rejects.toMatchObject({ code: 'INVALID_INPUT' });
  expect((await manager.load<Chat>({ sessionId: 's', at: '@' })).messages).toEqual(['a', 'b']);
});

const collectGarbage = (() => {
  setFlagsFromString('--expose-gc');
  return runInNewContext('gc') as () => void;
})();

test('[session.1] a session that nobody holds is closed, but not before its calls have ended, nor with a lease', async () => {
  const manager = open();
  const openIds = () => [...manager.host.sessions.openBranches].map(({ id }) => id).toSorted();
  const begin = async (id: string) => manager.session<Chat>(id, { initial });
  await (await begin('leased')).lease({ renew: 'manual' });
  for (let i = 0; i < 5; i++) await (await begin(`dropped ${i}`)).save();
  let finish: (value: number) => void = () => undefined;
  const ended = new Promise<number>((resolve) => {
    finish = resolve;
  });
  const step = (await begin('working')).step('slow', () => ended);
  const collected = async (count: number): Promise<void> => {
    for (let i = 0; i < 1000 && openIds().length > count; i++) {
      await new Promise(setImmediate);
      collectGarbage();
    }
  };
  await collected(2);
  expect(openIds()).toEqual(['leased', 'working']);
  finish(7);
  expect(await step).toBe(7);
  await collected(1);
  expect(openIds()).toEqual(['leased']);
  expect((await begin('dropped 3')).isResumed).toBe(true);
});
