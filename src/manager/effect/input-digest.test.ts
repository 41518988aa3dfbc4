import { expect, test } from 'vitest';
import { describeOn } from '../../../test/support/later.ts';
import { STORAGES } from '../../../test/support/storages.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { CheckpointManager } from '../checkpoint-manager.ts';
import type { SessionOptions } from '../write/session-options.ts';
import type { InputDigest } from './input-digest.ts';
import { digestInput, isSameInput } from './input-digest.ts';
import { StepRecordings } from './step-recordings.ts';

const A = `sk_live_${'a1B2c3D4'.repeat(3)}`;
const B = `sk_live_${'z9Y8x7W6'.repeat(3)}`;

const PAIRS: readonly (readonly [what: string, one: unknown, other: unknown])[] = [
  ['a field', { token: A }, { token: B }],
  ['a word of a text', `pay with ${A} now`, `pay with ${B} now`],
  ['a list', { order: 17, cards: [A, B] }, { order: 17, cards: [B, A] }],
  ['a map', new Map([['apiKey', A]]), new Map([['apiKey', B]])],
  ['a short password', { user: 'u', password: 'hunter2' }, { user: 'u', password: 'hunter3' }],
  ['one of two', { password: 'hunter2', token: A }, { password: 'hunter2', token: B }],
  ['how often', { from: A, to: A }, { from: A, to: B }],
];

const { codec } = new CheckpointManager({ storage: new InMemoryCheckpointStorage() }).engine;

describeOn(STORAGES)('inputs with secrets on %s', (_, create) => {
  const open = () => {
    const { storage } = create();
    let calls = 0;
    const manager = () => new CheckpointManager({ storage });
    const charge = async (input: unknown, options?: SessionOptions) =>
      (await manager().session('s', options)).step('charge', () => `charge ${++calls}`, { input });
    return { manager, charge };
  };

  test.each(PAIRS)(
    '[effect.3] inputs that differ only in a secret are different inputs: %s',
    async (_what, one, other) => {
      const { charge } = open();
      expect(await charge(one)).toBe('charge 1');
      expect(await charge(other)).toBe('charge 2');
      expect(await charge(one)).toBe('charge 1');
      expect(await charge(other)).toBe('charge 2');
      await expect(charge({ never: A }, { mode: 'frozen' })).rejects.toMatchObject({ code: 'REPLAY_MISMATCH' });
    },
  );

  test('[effect.5] a frozen replay with another secret says so', async () => {
    const { charge } = open();
    await charge({ token: A });
    await expect(charge({ token: B }, { mode: 'frozen' })).rejects.toThrow(/another secret/);
  });

  test('[effect.3] a step that was in flight keeps its key beside one with another secret', async () => {
    const { manager } = open();
    const keys: string[] = [];
    const fail = ({ idempotencyKey }: { idempotencyKey: string }) => {
      keys.push(idempotencyKey);
      throw new Error('503');
    };
    const session = await manager().session('s');
    for (const token of [A, B]) await expect(session.step('charge', fail, { input: { token } })).rejects.toThrow('503');
    const later = await manager().session('s');
    for (const token of [B, A]) await expect(later.step('charge', fail, { input: { token } })).rejects.toThrow('503');
    expect(keys[0]).not.toBe(keys[1]);
    expect(keys.slice(2)).toEqual([keys[1], keys[0]]);
  });

  test('[effect.3] an input from a restored state, whose secrets are left out, finds what was recorded with them', async () => {
    const { manager, charge } = open();
    const input = { order: 17, token: A, note: `use ${B}` };
    await charge(input);
    const session = await manager().session('other');
    await session.save(input);
    const { state } = await manager().session('other');
    expect(state).not.toEqual(input);
    expect(await charge(state)).toBe('charge 1');
  });
});

const bare = (fields: object): unknown => Object.assign(Object.create(null), fields);

test.each([
  ['an object without a prototype', bare({ who: 'ann', eur: 5 }), bare({ eur: 5, who: 'ann' })],
  ['the value of a map', new Map([['x', { a: 1, b: 2 }]]), new Map([['x', { b: 2, a: 1 }]])],
  ['the element of a set', [new Set([{ a: 1, b: 2 }])], [new Set([{ b: 2, a: 1 }])]],
])('[effect.3] the order of keys does not matter in %s', (_, one, other) => {
  expect(isSameInput(digestInput(codec, one), digestInput(codec, other))).toBe(true);
  expect(isSameInput(digestInput(codec, one), digestInput(codec, { ...(one as object) }))).toBe(false);
});

test('[effect.3] the order of entries in a map counts', () => {
  const [one, other] = [
    new Map([
      [1, 'a'],
      [2, 'b'],
    ]),
    new Map([
      [2, 'b'],
      [1, 'a'],
    ]),
  ];
  expect(isSameInput(digestInput(codec, one), digestInput(codec, other))).toBe(false);
});

test.each(STORAGES)('[effect.3] the order of keys in an input does not matter, on %s', async (_, create) => {
  const { storage } = create();
  const keys: string[] = [];
  let isFailing = true;
  const step = async (name: string, input: unknown) =>
    (await new CheckpointManager({ storage }).session('s')).step(
      name,
      ({ idempotencyKey }) => {
        keys.push(idempotencyKey);
        if (isFailing) throw new Error('503');
        return keys.length;
      },
      { input },
    );
  await expect(step('charge', { order: 17, cards: [{ token: A, pin: 1 }] })).rejects.toThrow('503');
  isFailing = false;
  expect(await step('charge', { cards: [{ pin: 1, token: A }], order: 17 })).toBe(2);
  expect(await step('charge', { order: 17, cards: [{ token: A, pin: 1 }] })).toBe(2);
  expect(await step('charge', { order: 17, cards: [{ pin: 1, token: B }] })).toBe(3);
  expect(await step('charge', { order: 17, cards: [1, 2] })).toBe(4);
  expect(await step('charge', { order: 17, cards: [2, 1] })).toBe(5);
  expect(keys[0]).toBe(keys[1]);
});

test('[effect.3] recordings of an older version, which knew one order, are found in that order; so are prompts', () => {
  const input = { order: 17, cards: [1] };
  const digest = digestInput(codec, input);
  expect(digest).toMatch(/^[0-9a-f]{64}~~[0-9a-f]{64}$/);
  const older = digest.slice(0, 64);
  expect([isSameInput(digest, older), isSameInput(older, digest)]).toEqual([true, true]);
  expect(isSameInput(digestInput(codec, { cards: [1], order: 17 }), older)).toBe(false);
  expect(isSameInput(digestInput(codec, { cards: [1], order: 17 }), digest)).toBe(true);
  const recorded = {
    ordinal: 1,
    name: 'charge',
    status: 'done',
    attempt: 1,
    branch: 'main',
    idempotencyKey: 'k',
  } as const;
  const recordings = new StepRecordings({
    branch: 'main',
    nextOrdinal: 2,
    recordings: [{ ...recorded, startedAtMs: 0, inputDigest: older, result: undefined }],
  });
  expect(recordings.take({ name: 'charge', inputDigest: digest }, { isExact: false })).toMatchObject({
    idempotencyKey: 'k',
  });
  const prompt = Array.from({ length: 600 }, (_, n) => ({ role: 'user', content: `${n}` }));
  expect(digestInput(codec, prompt)).toMatch(/^[0-9a-f]{64}$/);
});

/** As the versions before marked nothing. */
const unmarked = (digest: InputDigest): InputDigest => digest.slice(0, 64);

test.each(PAIRS)('[effect.3] recordings of an older version, without marks, are found: %s', (_what, one, other) => {
  const [first, second] = [digestInput(codec, one), digestInput(codec, other)];
  expect(unmarked(first)).toBe(unmarked(second));
  expect(isSameInput(first, unmarked(first))).toBe(true);
  expect(isSameInput(unmarked(second), first)).toBe(true);
  expect(isSameInput(first, second)).toBe(false);
});

test('[secret.6] what is stored of a secret in an input fits one in 256 short ones and one in 65,536 long ones', () => {
  const markOf = (password: string) => digestInput(codec, { password }).slice(65);
  const pins = Array.from({ length: 10_000 }, (_, pin) => markOf(String(pin).padStart(4, '0')));
  expect(new Set(pins).size).toBe(256);
  expect(markOf('correct horse battery')).toMatch(/^[0-9a-f]{4}$/);
  expect(digestInput(codec, { order: 17 })).toMatch(/^[0-9a-f]{64}$/);
});

test('[secret.6] a secret has one mark, wherever it stands, and an input keeps the marks of its last 64 secrets', () => {
  const marks = (input: unknown) => digestInput(codec, input).slice(65).split('.');
  const [mark] = marks({ token: A });
  expect(marks([`pay with ${A}`, { apiKey: A }])).toEqual([mark, mark]);
  const many = Array.from({ length: 100 }, (_, at) => `sk_live_${String(at).padStart(3, '0')}${'q7R8s9T0'.repeat(3)}`);
  expect(marks(many)).toEqual(marks(many.slice(36)));
  expect(marks(many)).toHaveLength(64);
});
