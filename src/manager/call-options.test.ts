import { EventEmitter } from 'node:events';
import { describe, expect, test } from 'vitest';
import { InMemoryCheckpointStorage } from '../storage/memory/memory-storage.ts';
import { CheckpointManager } from './checkpoint-manager.ts';
import type { Session } from './session/session.ts';
import { Workers } from './workers/workers.ts';

type World = { readonly manager: CheckpointManager; readonly session: Session; readonly id: string };

async function setUp(): Promise<World> {
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  const session = await manager.session('s');
  return { manager, session, id: await session.save({ n: 1 }, { agentId: 'a' }) };
}

/** Calls with an option that none of them knows, and what the error says. */
const TYPOS: readonly [string, (world: World, options: never) => unknown, object, string][] = [
  [
    'save',
    ({ manager }, options) => manager.save({}, options),
    { typ: 'x' },
    '"typ" is not an option of save(); did you mean "type"?',
  ],
  ['session', ({ manager }, options) => manager.session('t', options), { brnach: 'x' }, 'did you mean "branch"?'],
  ['session.save', ({ session }, options) => session.save({}, options), { stauts: 'x' }, 'did you mean "status"?'],
  ['step', ({ session }, options) => session.step('s', () => 1, options), { inptu: 1 }, 'did you mean "input"?'],
  ['lease', ({ session }, options) => session.lease(options), { ttl: 1 }, 'did you mean "ttlMs"?'],
  ['restore', ({ manager, id }, options) => manager.restore(id, options), { int: {} }, 'did you mean "into"?'],
  [
    'latest',
    ({ manager }, options) => manager.latest(options),
    { agentid: 'b' },
    '"agentid" is not an option of a filter of checkpoints; did you mean "agentId"?',
  ],
  ['list', ({ manager }, options) => manager.list(options), { sesionId: 's' }, 'did you mean "sessionId"?'],
  ['the page of list', ({ manager }, options) => manager.list({}, options), { limt: 1 }, 'did you mean "limit"?'],
  ['listByUser', ({ manager }, options) => manager.listByUser('u', options), { ofset: 1 }, 'did you mean "offset"?'],
  [
    'fork',
    ({ manager, id }, options) => manager.fork(id, options),
    { name: 'x' },
    'known: branch, edit, author, reason',
  ],
  ['rewind', ({ manager, id }, options) => manager.rewind(id, options), { braanch: 'x' }, 'did you mean "branch"?'],
  [
    'prune',
    ({ manager }, options) => manager.prune(options),
    { keepLast: 2 },
    '"keepLast" is not an option of prune(); use "policy.keepLast".',
  ],
  [
    'the policy of prune',
    ({ manager }, options) => manager.prune(options),
    { policy: { keepLsat: 2 } },
    'The option "policy" of prune() has the unknown key "keepLsat"; did you mean "keepLast"?',
  ],
  [
    'cleanupOldCheckpoints',
    ({ manager }, options) => manager.cleanupOldCheckpoints(options),
    { days: 3 },
    'is not an option',
  ],
  ['delete', ({ manager, id }, options) => manager.delete(id, options), { reson: 'x' }, 'did you mean "reason"?'],
  ['gc', ({ manager }, options) => manager.gc(options), { sginal: 1 }, 'did you mean "signal"?'],
  ['verify', ({ manager }, options) => manager.verify(options), { readdata: false }, 'did you mean "readData"?'],
  [
    'abandoned',
    ({ manager }, options) => new Workers(manager).abandoned(options),
    { limits: 1 },
    'did you mean "limit"?',
  ],
  [
    'recoverAbandoned',
    ({ manager }, options) => new Workers(manager).recoverAbandoned(() => 1, options),
    { maxAttempt: 1 },
    'did you mean "maxAttempts"?',
  ],
  [
    'saveGroup',
    ({ manager }, options) => new Workers(manager).saveGroup([], options),
    { groupid: 'g' },
    'did you mean "groupId"?',
  ],
  [
    'restoreGroup',
    ({ manager, id }, options) => new Workers(manager).restoreGroup(id, options),
    { onyl: [] },
    'did you mean "only"?',
  ],
  [
    'joinGroup',
    ({ manager }, options) => new Workers(manager).joinGroup('g', 'm', options),
    { oncut: () => 1 },
    'did you mean "onCut"?',
  ],
  [
    'on',
    async ({ manager }, options) => manager.on('checkpoint_saved', () => 1, options),
    { awiat: true },
    'did you mean "await"?',
  ],
];

/** Values that none of them can use. */
const VALUES: readonly [string, (world: World, value: never) => unknown, unknown, string][] = [
  [
    'a branch that is empty',
    ({ manager }, branch) => manager.session('t', { branch }),
    '',
    '"branch" of session() must be a string of 1 to 512',
  ],
  [
    'a mode',
    ({ manager }, mode) => manager.session('t', { mode }),
    'lvie',
    'must be one of "live", "recorded", "frozen"; found "lvie"',
  ],
  ['a limit in words', ({ manager }, limit) => manager.list({}, { limit }), '3', 'found "3"'],
  ['an offset of NaN', ({ manager }, offset) => manager.list({}, { offset }), Number.NaN, 'found NaN'],
  ['a filter of null', ({ manager }, agentId) => manager.latest({ agentId }), null, 'found null'],
  [
    'a date in words',
    ({ manager }, from) => manager.list({ from }),
    '2026-01-01',
    '"from" of a filter of checkpoints must be a valid Date',
  ],
  ['no ttl', ({ session }, ttlMs) => session.lease({ ttlMs }), 0, '"ttlMs" of lease()'],
  ['effects', ({ session }, effects) => session.save({}, { effects }), 'all', 'must be one of "seen", "of_parent"'],
  [
    'an age of nothing',
    ({ manager }, maxAgeDays) => manager.cleanupOldCheckpoints({ maxAgeDays }),
    undefined,
    '"maxAgeDays" of cleanupOldCheckpoints() must be a whole number',
  ],
  [
    'a policy',
    ({ manager }, policy) => manager.prune({ policy }),
    { types: { routine: { keepLast: -1 } } },
    '"policy.types["routine"].keepLast" of prune()',
  ],
  [
    'an id to restore',
    ({ manager }, id) => manager.restore(id),
    undefined,
    'A checkpoint id must be a string; found undefined.',
  ],
  ['an id to load', ({ manager }, id) => manager.load(id), 5, 'A checkpoint id must be a string; found 5.'],
  ['an id to get', ({ manager }, id) => manager.get(id), null, 'A checkpoint id must be a string'],
  [
    'an id to compare',
    ({ manager, id }, other) => manager.compare(id, other),
    undefined,
    'A checkpoint id must be a string',
  ],
  ['an id to fork', ({ manager }, id) => manager.fork(id), 3, 'A checkpoint id must be a string; found 3.'],
  [
    'an event',
    async ({ manager }, name) => manager.on(name, () => 1),
    'chekpoint_saved',
    '"chekpoint_saved" is not an event of CheckpointManager; did you mean "checkpoint_saved"?',
  ],
  [
    'a handler',
    async ({ manager }, handler) => manager.on('save_failed', handler),
    undefined,
    'The handler of save_failed must be a function',
  ],
  [
    'a factory',
    async (_, factory) => new CheckpointManager({ storage: new InMemoryCheckpointStorage(), agents: { A: factory } }),
    {},
    'must be a function; found an object',
  ],
];

describe('calls of a manager', () => {
  test.each(TYPOS)('[input.1] %s refuses an option that it does not know', async (_, call, ...[options, message]) => {
    const world = await setUp();
    await expect(async () => call(world, options as never)).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      message: expect.stringContaining(message),
    });
    expect((await world.manager.list()).checkpoints).toHaveLength(1);
  });

  test.each(VALUES)('[input.1] %s that cannot be used is refused', async (_, call, ...[value, message]) => {
    const world = await setUp();
    await expect(async () => call(world, value as never)).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      message: expect.stringContaining(message),
    });
    expect((await world.manager.list()).checkpoints).toHaveLength(1);
  });

  test.each<[string, object, string]>([
    ['a typo', { retension: {} }, 'did you mean "retention"?'],
    ['no storage', {}, 'The option "storage" of new CheckpointManager() must be a storage, such as'],
    ['a storage that is none', { storage: {} }, 'found an object'],
    ['a limit of nothing', { retention: { maxCheckpoints: 0 } }, '"retention.maxCheckpoints"'],
    [
      'a class that is no codec',
      { classes: [class A {}] },
      '"classes[0]" of new CheckpointManager() must be a class codec',
    ],
    [
      'an agent that is no factory',
      { agents: { A: 5 } },
      '"agents["A"]" of new CheckpointManager() must be a function',
    ],
    ['bytes below 0', { shadowBudgetBytes: -1 }, 'found -1'],
    ['limits of NaN', { limits: { maxDepth: Number.NaN } }, '"limits.maxDepth"'],
  ])('[input.1] a manager with %s is not made', (_, options, message) => {
    const storage = new InMemoryCheckpointStorage();
    const given = 'storage' in options || Object.keys(options).length === 0 ? options : { storage, ...options };
    expect(() => new CheckpointManager(given as never)).toThrow(message);
  });

  test('[input.1] options that are undefined count as left out', async () => {
    const storage = new InMemoryCheckpointStorage({ maxCheckpoints: 2 });
    const manager = new CheckpointManager({ storage, retention: { maxCheckpoints: undefined, types: undefined } });
    const session = await manager.session('s', { branch: undefined, mode: undefined });
    for (let n = 0; n < 4; n++) await session.save({ n }, { type: undefined, userId: undefined });
    const { checkpoints } = await manager.list({ agentId: undefined, from: undefined }, { limit: undefined });
    expect(checkpoints).toHaveLength(2);
    expect((await manager.prune({ policy: { types: undefined, keepLast: undefined }, dryRun: true })).deleted).toEqual(
      [],
    );
    await (await session.lease({ owner: undefined, ttlMs: undefined, renew: undefined })).release();
    await manager.close();
  });

  test('[input.4] a name in the place of an id is told how to come by one', async () => {
    const { manager, id } = await setUp();
    await expect(manager.compare(id, 'main')).rejects.toMatchObject({
      code: 'NOT_FOUND',
      message: expect.stringContaining("{ sessionId, at: 'main' }"),
    });
  });
});

test('[input.1] restore refuses a place that is none, and two places', async () => {
  const { manager, id } = await setUp();
  await expect(manager.restore(id, { into: null as unknown as object })).rejects.toThrow(/"into".*found null/);
  await expect(manager.restore(id, { into: {}, factory: () => ({}) })).rejects.toMatchObject({
    code: 'INVALID_INPUT',
    message: expect.stringContaining('pass into or factory'),
  });
});

test('[input.1] two codecs of one class are refused', () => {
  class Point {}
  const codec = (tag: string) => ({ tag, class: Point, encode: () => 1, decode: () => new Point() });
  const storage = new InMemoryCheckpointStorage();
  expect(() => new CheckpointManager({ storage, classes: [codec('a'), codec('b')] })).toThrow(
    'The class Point has two class codecs, "a" and "b".',
  );
});

test.each([{ userId: 'v' }, { type: 'other' }, { note: 'other' }, { metadata: { a: 2 } }])(
  '[save.5] a key used again with %j is refused, and with the same is stored once',
  async (other) => {
    const { session } = await setUp();
    const said = { idempotencyKey: 'k', userId: 'u', type: 'mine', note: 'one', metadata: { a: 1, b: 2 } };
    const id = await session.save({ n: 2 }, said);
    expect(await session.save({ n: 2 }, { ...said, metadata: { b: 2, a: 1 } })).toBe(id);
    await expect(session.save({ n: 2 }, { ...said, ...other })).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      message: expect.stringContaining(`for another ${Object.keys(other)[0]}`),
    });
  },
);

test("[value.5] an object's first save that cannot be read emits save_failed, with the path", async () => {
  const { manager } = await setUp();
  const told: unknown[] = [];
  manager.on('save_failed', (error, { sessionId }) => void told.push([sessionId, String(error)]));
  const bad = { id: 'x', bad: () => 1 };
  const throwing = {
    id: 'y',
    get field() {
      throw new Error('not now');
    },
  };
  await expect(manager.save(bad)).rejects.toThrow('$.bad');
  await expect(manager.save(throwing)).rejects.toMatchObject({ code: 'INVALID_INPUT' });
  expect(told).toEqual([
    ['x', expect.stringContaining('$.bad')],
    ['y', expect.stringMatching(/\$\.field: its getter threw: not now/)],
  ]);
});

test('[group.2] the session of a chat cannot be a group', async () => {
  const { manager, session } = await setUp();
  const saving = new Workers(manager).saveGroup([{ name: 'a', agent: { n: 1 } }], { groupId: session.id });
  await expect(saving).rejects.toThrow('Session "s" is not a group');
  expect((await manager.session('s')).state).toEqual({ n: 1 });
});

test('[input.1] errors name what is at fault: a codec, a symbol, a short id, a session that is taken', async () => {
  class Point {}
  const decode = () => {
    throw new Error('no such version');
  };
  const classes = [{ tag: 'point', class: Point, encode: () => 1, decode }];
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage(), classes });
  const session = await manager.session('s');
  const id = await session.save({ at: new Point() });
  await expect(manager.load(id)).rejects.toMatchObject({
    code: 'INVALID_INPUT',
    message: expect.stringContaining('The class codec "point" of Point threw in decode: no such version.'),
  });
  class Emitting extends EventEmitter {
    readonly n = 1;
  }
  await expect(manager.save(new Emitting())).rejects.toThrow(/a symbol as key, Symbol\(.*\).*saveState/);
  for (const prefix of ['', 'c', 'chk', 'chk_']) await expect(manager.restore(prefix)).rejects.toThrow('Pass an id');
  const members = [{ name: 'a', session, state: 1 }];
  await expect(new Workers(manager).saveGroup(members, { groupId: 's' })).rejects.toThrow("cannot be the group's too");
});
