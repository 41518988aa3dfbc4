import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { temporaryFolder } from '../../test/support/storages.ts';
import { CorruptError } from '../core/errors.ts';
import { CheckpointManager, InMemoryCheckpointStorage } from '../index.ts';
import type { SelectOptions } from './find/finding.ts';
import { Memory } from './index.ts';

const userId = 'ann';

let clock = 1_700_000_000_000;

function open(): {
  manager: CheckpointManager;
  memory: Memory;
  storage: InMemoryCheckpointStorage;
  path: string;
  known: (options?: Partial<SelectOptions>) => Promise<string[]>;
} {
  const folder = temporaryFolder();
  const now = () => ++clock;
  const storage = new InMemoryCheckpointStorage();
  const manager = new CheckpointManager({
    storage,
    retention: { types: { manual: {} } },
    now,
  });
  const path = join(folder, 'history.db');
  const memory = new Memory({ path, manager, now });
  onTestFinished(async () => {
    await memory.close();
    await manager.close();
  });
  const known = async (options: Partial<SelectOptions> = {}) =>
    (await memory.getAll({ userId, ...options })).map(({ memory: words }) => words).sort();
  return { manager, memory, storage, path, known };
}

/** Saves a session and teaches what the new checkpoint holds. */
async function teach({ manager, memory }: ReturnType<typeof open>, sessionId: string, words: string): Promise<string> {
  const session = await manager.session(sessionId);
  const id = await session.save({ words });
  await memory.add(words, { userId, checkpoint: id, infer: false });
  await session.close();
  return id;
}

test('[memory.6] a rewind hides what was learned after its target, and going back brings it back', async () => {
  const all = open();
  const { manager, memory, known } = all;
  const first = await teach(all, 's', 'one');
  const second = await teach(all, 's', 'two');
  await memory.rewind(first, { branch: 'again' });
  expect(await known()).toEqual(['one']);
  expect((await memory.search('two', { userId })).results).toEqual([]);
  await teach(all, 's', 'three');
  expect(await known()).toEqual(['one', 'three']);
  await manager.switchBranch('s', 'main');
  expect(await known()).toEqual(['one', 'two']);
  expect(await known({ asOf: second })).toEqual(['one', 'two']);
});

test('[memory.6] branches of a fork share the past only', async () => {
  const all = open();
  const { manager, memory, known } = all;
  const first = await teach(all, 's', 'one');
  await manager.fork(first, { branch: 'side' });
  await teach(all, 's', 'on main');
  const side = await manager.session('s', { branch: 'side' });
  const id = await side.save({ side: true });
  await memory.add('on the side', { userId, checkpoint: id, infer: false });
  expect(await known()).toEqual(['on main', 'one']);
  expect(await known({ session: side })).toEqual(['on the side', 'one']);
  await manager.fork(id, { branch: 'deeper' });
  expect(await known({ session: { id: 's', branch: 'deeper' } })).toEqual(['on the side', 'one']);
});

test('[memory.6] what was changed, deleted or superseded after the target of a rewind is as it was', async () => {
  const { manager, memory, known } = open();
  const session = await manager.session('s');
  const start = await session.save({ n: 0 });
  const fact = { userId, kind: 'fact' as const, subject: 'ann', slot: 'home', infer: false };
  const home = await memory.add('Paris', { ...fact, checkpoint: start });
  const [code, door] = (
    await memory.add(
      [
        { role: 'user', content: 'code 1' },
        { role: 'user', content: 'door left' },
      ],
      { userId, checkpoint: start, infer: false },
    )
  ).results;
  const later = await session.save({ n: 1 });
  const news = await memory.add('Berlin', { ...fact, checkpoint: later });
  expect(news.superseded).toEqual([home.results[0]?.id]);
  await memory.update(code?.id ?? '', 'code 2', { checkpoint: later });
  await memory.delete(door?.id ?? '', { checkpoint: later });
  expect(await known()).toEqual(['Berlin', 'code 2']);
  await memory.rewind(start);
  expect(await known()).toEqual(['Paris', 'code 1', 'door left']);
  expect((await memory.search('code 1', { userId, topK: 1 })).results).toMatchObject([{ memory: 'code 1' }]);
  await manager.switchBranch('s', 'main');
  expect(await known()).toEqual(['Berlin', 'code 2']);
});

test('[memory.7] what a session learned since its head belongs to its next checkpoint', async () => {
  const { manager, memory, known } = open();
  const session = await manager.session('s');
  await memory.add('before the first', { userId, session, infer: false });
  const first = await session.save({ n: 1 });
  await memory.add('after the first', { userId, session, infer: false });
  expect(await known()).toEqual(['after the first', 'before the first']);
  expect(await known({ asOf: first })).toEqual(['before the first']);
  const second = await session.save({ n: 2 });
  expect(await known({ asOf: second })).toEqual(['after the first', 'before the first']);
  await memory.rewind(first);
  expect(await known()).toEqual(['before the first']);
  const rewound = await manager.session('s');
  await memory.add('on the new branch', { userId, session: rewound, infer: false });
  expect(await known()).toEqual(['before the first', 'on the new branch']);
  expect(await known({ session })).toEqual(['after the first', 'before the first']);
});

test('[memory.7] a new run sees the current branches of all sessions, and what belongs to none', async () => {
  const all = open();
  const { manager, memory, known } = all;
  const start = await teach(all, 'a', 'a knows');
  await teach(all, 'a', 'a forgot');
  await teach(all, 'b', 'b knows');
  await memory.add('everyone knows', { userId, infer: false });
  await memory.rewind(start);
  expect(await known()).toEqual(['a knows', 'b knows', 'everyone knows']);
  const session = await manager.session('c');
  expect(await known({ session })).toEqual(['a knows', 'b knows', 'everyone knows']);
});

test('[memory.7] a description of a session stands where the session does, and an unknown one is refused', async () => {
  const { manager, memory, known } = open();
  const session = await manager.session('s');
  const first = await session.save({ n: 1 });
  const place = { id: 's', branch: 'main' };
  await memory.add('after the first', { userId, session: place, infer: false });
  await memory.add('after the first, too', { userId, session: { id: 's' }, infer: false });
  await memory.add('after the first', { userId, session, infer: false }); // the same source
  await session.save({ n: 2 });
  await memory.add('after the second', { userId, session: place, infer: false });
  await session.close();
  await memory.rewind(first);
  expect(await known()).toEqual([]);
  expect(await known({ session: place })).toEqual(['after the first', 'after the first, too', 'after the second']);
  await memory.add('on the new branch', { userId, session: { id: 's' }, infer: false });
  expect(await known()).toEqual(['on the new branch']);
  expect(await known({ session: { id: 's' } })).toEqual(['on the new branch']);
  const wrong = (session: object) => memory.add('lost', { userId, session } as never);
  await expect(wrong({ id: 'S' })).rejects.toMatchObject({
    code: 'NOT_FOUND',
    message: expect.stringContaining('"S"'),
  });
  await expect(wrong({ id: 's', branch: 'mian' })).rejects.toMatchObject({
    code: 'NOT_FOUND',
    message: expect.stringMatching(/no branch "mian"; it has "main", .*Pass the open Session/),
  });
  for (const session of [{ id: 'S' }, { id: 's', branch: 'mian' }])
    await expect(memory.search('lost', { userId, session })).rejects.toMatchObject({ code: 'NOT_FOUND' });
  await expect(wrong({ branch: 'main' })).rejects.toMatchObject({ code: 'INVALID_INPUT' });
  expect(await known()).toEqual(['on the new branch']);
});

test('[memory.6] in long histories too, however often one looks', async () => {
  const all = open();
  const { manager, memory, known } = all;
  const first = await teach(all, 's', 'early');
  const session = await manager.session('s');
  for (let n = 0; n < 40; n++) await session.save({ n });
  await session.close();
  const last = await teach(all, 's', 'late');
  for (let look = 0; look < 3; look++) {
    expect(await known({ asOf: last })).toEqual(['early', 'late']);
    expect(await known({ asOf: first })).toEqual(['early']);
    expect(await known()).toEqual(['early', 'late']);
  }
  const afresh = new Memory({ path: all.path, manager });
  for (let look = 0; look < 2; look++)
    expect((await afresh.getAll({ userId, asOf: last })).map((one) => one.memory)).toEqual(['early', 'late']);
  await afresh.close();
  await memory.rewind(first);
  expect(await known()).toEqual(['early']);
});

test('[memory.7] many sessions are looked up at once', async () => {
  const all = open();
  for (let n = 0; n < 12; n++) await teach(all, `session ${n}`, `fact number ${n}`);
  expect(await all.known()).toHaveLength(12);
});

test('[memory.7] a promoted memory escapes its branch, as it is seen from there', async () => {
  const all = open();
  const { manager, memory, known } = all;
  const start = await teach(all, 's', 'old code');
  const [code] = await memory.getAll({ userId });
  const later = await teach(all, 's', 'escapes');
  await teach(all, 's', 'stays behind');
  const escaping = (await memory.getAll({ userId })).find(({ memory: words }) => words === 'escapes');
  await memory.promote(escaping?.id ?? '');
  await memory.rewind(start);
  expect(await known()).toEqual(['escapes', 'old code']);
  await manager.switchBranch('s', 'main');
  await memory.update(code?.id ?? '', 'new code', { checkpoint: later });
  await memory.promote(code?.id ?? '');
  await memory.rewind(start);
  expect(await known()).toEqual(['escapes', 'new code']);
  expect((await memory.search('escapes', { userId })).results[0]).toMatchObject({ isPromoted: true });
});

test('[memory.2] learning on one branch what another branch knows is learned there too', async () => {
  const all = open();
  const { manager, memory, known } = all;
  await teach(all, 'a', 'start');
  await teach(all, 'a', 'the shared fact');
  await teach(all, 'b', 'the shared fact');
  expect(await known()).toEqual(['start', 'the shared fact']);
  const [entry] = (await manager.list({ sessionId: 'a' }, { order: 'oldest', limit: 1 })).checkpoints;
  await memory.rewind(entry?.id ?? '');
  expect(await known()).toEqual(['start', 'the shared fact']); // b has learned it by itself
});

test('[memory.2] a replay of a run adds nothing', async () => {
  const { manager, memory } = open();
  async function run(): Promise<void> {
    const session = await manager.session('s', { replayFrom: 'start' });
    const id = await session.save({ n: 1 }, { idempotencyKey: 'first' });
    await memory.add(
      [
        { role: 'user', content: 'I prefer tea.' },
        { role: 'assistant', content: 'Noted: tea.' },
      ],
      { userId, checkpoint: id },
    );
    await memory.add('I love cake.', { userId, session });
    await session.close();
  }
  await run();
  const before = await memory.getAll({ userId });
  await run();
  expect(await memory.getAll({ userId })).toEqual(before);
});

test('[memory.8] asOf shows what was known at a checkpoint, elsewhere too', async () => {
  const all = open();
  const { memory, known } = all;
  await memory.add('common', { userId, infer: false });
  const first = await teach(all, 's', 'one');
  await teach(all, 'other', 'elsewhere');
  await teach(all, 's', 'two');
  expect(await known({ asOf: first })).toEqual(['common', 'one']);
  expect(await known()).toEqual(['common', 'elsewhere', 'one', 'two']);
});

test('[memory.9] a memory says which checkpoint taught it, also when that was deleted, or its whole session', async () => {
  const all = open();
  const { manager, memory, known } = all;
  const first = await teach(all, 's', 'one');
  await teach(all, 's', 'two');
  const [one] = await memory.getAll({ userId });
  const id = one?.id ?? '';
  expect((await memory.why(id)).sources).toMatchObject([
    { checkpointId: first, sessionId: 's', status: 'present', isVisible: true },
  ]);
  await manager.delete(first, { reason: 'too old' });
  expect((await memory.why(id)).sources).toMatchObject([
    { status: 'deleted', statusReason: expect.stringContaining('too old') },
  ]);
  expect(await known()).toEqual(['one', 'two']);
  await manager.deleteSession('s');
  expect(await known()).toEqual(['one', 'two']);
  expect((await memory.why(id)).sources).toMatchObject([{ status: 'gone' }]);
});

test('[memory.9] a deleted session keeps teaching what it knew last, not what it had abandoned', async () => {
  const all = open();
  const first = await teach(all, 's', 'one');
  await teach(all, 's', 'abandoned');
  await all.memory.rewind(first);
  await teach(all, 's', 'last');
  await all.manager.deleteSession('s');
  expect(await all.known()).toEqual(['last', 'one']);
});

for (const [how, move, expected] of [
  ['a rewind', async ({ memory }, { first }) => void (await memory.rewind(first)), ['one']],
  [
    'a save after it',
    async ({ manager, memory }, { first }) => {
      await memory.rewind(first);
      await (await manager.session('s')).save({ n: 3 });
    },
    ['one'],
  ],
  [
    'a switch back',
    async (all, { first }) => {
      await all.memory.rewind(first);
      await teach(all, 's', 'three');
      await all.manager.switchBranch('s', 'main');
    },
    ['one', 'two'],
  ],
] as [string, (all: ReturnType<typeof open>, ids: { first: string }) => Promise<void>, string[]][]) {
  test(`[memory.9] after ${how} a deleted session keeps teaching what was seen of it, and nothing that was hidden`, async () => {
    const all = open();
    const { manager, memory, known } = all;
    const first = await teach(all, 's', 'one');
    await teach(all, 's', 'two');
    const ids = (await memory.getAll({ userId })).map(({ id }) => id);
    await move(all, { first });
    expect(await known()).toEqual(expected);
    const seen = await Promise.all(ids.map((id) => memory.get(id)));
    await manager.deleteSession('s');
    expect(await known()).toEqual(expected);
    expect(await Promise.all(ids.map((id) => memory.get(id)))).toEqual(seen);
    const again = new Memory({ path: all.path, manager });
    expect((await again.getAll({ userId })).map((one) => one.memory).sort()).toEqual(expected);
    await again.close();
    const next = await teach(all, 's', 'a new life'); // of the same name
    expect(await known()).toEqual(['a new life', ...expected]);
    expect(await Promise.all(ids.map((id) => memory.get(id)))).toEqual(seen);
    await teach(all, 's', 'hidden again');
    await memory.rewind(next);
    await manager.deleteSession('s');
    expect(await known()).toEqual(['a new life', ...expected]);
  });
}

test('[memory.9] what was learned before the checkpoint that taught last stays too', async () => {
  const all = open();
  const first = await teach(all, 's', 'one');
  await teach(all, 's', 'two');
  await all.memory.add('late', { userId, checkpoint: first, infer: false });
  await all.manager.deleteSession('s');
  expect(await all.known()).toEqual(['late', 'one', 'two']);
});

test('[memory.9] retention hides nothing and brings nothing back either, also where no memory is open', async () => {
  for (const isOpen of [true, false]) {
    const all = open();
    const first = await teach(all, 's', 'one');
    await teach(all, 's', 'two');
    await all.manager.rewind(first);
    const old = new CheckpointManager({ storage: all.storage, now: () => clock + 60 * 86_400_000 });
    const memory = isOpen ? new Memory({ path: all.path, manager: old }) : undefined;
    expect(await old.cleanupOldCheckpoints({ maxAgeDays: 30 })).toBe(2);
    await memory?.close();
    expect(await all.known()).toEqual(['one']);
  }
});

test('[memory.9] a session that cannot be read any more is deleted all the same', async () => {
  const all = open();
  await teach(all, 's', 'one');
  all.storage.readCheckpoint = async (id) => {
    throw new CorruptError(`Checkpoint ${id} is damaged.`);
  };
  const manager = new CheckpointManager({ storage: all.storage });
  const memory = new Memory({ path: all.path, manager });
  expect(await manager.deleteSession('s')).toBe(true);
  expect(await all.known()).toEqual(['one']);
  await memory.close();
});

test('[memory.2] after a rewind the same idempotency key teaches the new branch, and there once', async () => {
  const { manager, memory, known } = open();
  const session = await manager.session('s');
  const first = await session.save({ n: 1 });
  const second = await session.save({ n: 2 });
  await session.close();
  const learn = async (checkpoint: string) => {
    const { results } = await memory.add('I live in Rome.', { userId, checkpoint, idempotencyKey: 'turn 2' });
    return results.map(({ event }) => event);
  };
  expect(await learn(second)).toEqual(['ADD', 'ADD']);
  for (const branch of ['again', 'and again']) {
    await memory.rewind(first, { branch });
    expect(await known()).toEqual([]);
    const rewound = await manager.session('s');
    const third = await rewound.save({ n: 3 });
    await rewound.close();
    expect(await learn(third)).toEqual(['ADD', 'ADD']);
    expect(await learn(third)).toEqual(['NONE', 'NONE']);
    expect(await known()).toEqual(['I live in Rome.', 'I live in Rome.']);
  }
  await manager.switchBranch('s', 'main');
  expect(await learn(second)).toEqual(['NONE', 'NONE']);
  await memory.purge({ userId });
  await memory.rewind(first);
  expect(await learn(first)).toEqual(['NONE', 'NONE']); // what was purged is not learned again from its source
});

test('[memory.13] what was learned and abandoned, or belongs to others, changes no ranking', async () => {
  const all = open();
  const { manager, memory } = all;
  const texts = ['tea with milk', 'green tea leaves', 'coffee and milk', 'tea tea tea', 'milk of almonds'];
  let last = '';
  for (const text of texts) last = await teach(all, 's', text);
  const ask = async () =>
    (await memory.search('tea with milk and leaves', { userId, explain: true })).results.map(({ id, score }) => [
      id,
      score,
    ]);
  const render = async () => (await memory.render('{memory}', { scope: { userId }, query: 'tea milk' })).text;
  const [before, block] = [await ask(), await render()];
  await manager.session('s');
  for (let n = 0; n < 20; n++) {
    await teach(all, 's', `leaves of milk number ${n}`);
    await memory.add(`milk ${n}`, { userId: 'bob' });
  }
  expect(await ask()).not.toEqual(before);
  await memory.rewind(last);
  expect(await ask()).toEqual(before);
  expect(await render()).toBe(block);
});

test('[memory.8] without a manager no checkpoint can be named', async () => {
  const all = open();
  const a = await teach(all, 'a', 'one');
  const folder = temporaryFolder();
  const alone = new Memory({ path: join(folder, 'h.db') });
  await expect(alone.getAll({ userId, asOf: a })).rejects.toMatchObject({ code: 'INVALID_INPUT' });
  await expect(alone.rewind(a)).rejects.toMatchObject({ code: 'INVALID_INPUT' });
  await expect(alone.add('x', { userId, checkpoint: a })).rejects.toMatchObject({ code: 'INVALID_INPUT' });
  await alone.close();
});
