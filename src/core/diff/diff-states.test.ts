import { describe, expect, test } from 'vitest';
import { findIn, StateCodec } from '../codec/state-codec.ts';
import { hasErrorCode } from '../errors.ts';
import { formatPath } from '../path.ts';
import type { ChunkContent, Digest } from '../tree/chunk.ts';
import { applyPatch, type Change, countChanges, diffStates, type StateDiff, toPatch } from './index.ts';

class Point {
  readonly x: number;
  constructor(x: number) {
    this.x = x;
  }
}

const codec = new StateCodec({
  classes: [{ tag: 'Point', class: Point, encode: (point) => (point as Point).x, decode: (x) => new Point(Number(x)) }],
});

type Outcome = StateDiff & { readonly loaded: number; readonly calls: number; readonly stored: number };

async function diff(before: unknown, after: unknown): Promise<Outcome> {
  const chunks = new Map<Digest, ChunkContent>();
  const [one, other] = [codec.encode(before), codec.encode(after)];
  for (const chunk of [...one.chunks, ...other.chunks]) chunks.set(chunk.digest, chunk);
  let [loaded, calls] = [0, 0];
  const { changes } = await diffStates({
    before: one.root,
    after: other.root,
    load: async (digests) => {
      loaded += digests.length;
      calls++;
      return digests.map(findIn(chunks));
    },
    codec,
  });
  const patched = applyPatch(before, toPatch({ changes }));
  expect(codec.encode(patched).root.digest).toBe(other.root.digest);
  return { changes, loaded, calls, stored: chunks.size };
}

/** Changes as a person would note them: `replace $.a 1 -> 2`. */
function note(change: Change): string {
  const path = formatPath(change.path);
  switch (change.op) {
    case 'add':
      return `add ${path} ${JSON.stringify(change.value)}`;
    case 'remove':
      return `remove ${path} ${JSON.stringify(change.oldValue)}`;
    case 'replace':
      return `replace ${path} ${JSON.stringify(change.oldValue)} -> ${JSON.stringify(change.value)}`;
    case 'move':
      return `move ${formatPath(change.from)} -> ${path} ${JSON.stringify(change.value)}`;
  }
}

async function notes(before: unknown, after: unknown): Promise<string[]> {
  return (await diff(before, after)).changes.map(note);
}

function brief({ op, path }: Change): string {
  return `${op} ${formatPath(path)}`;
}

function conversation(count: number): { agent: string; messages: Record<string, unknown>[] } {
  const messages = Array.from({ length: count }, (_, at) => ({
    role: at % 2 === 0 ? 'user' : 'assistant',
    content: `message ${at}: ${'lorem ipsum '.repeat(10)}`,
  }));
  return { agent: 'a', messages };
}

describe('long arrays', () => {
  test('[diff.2] an edit in 5,000 messages is one change, found by loading few chunks', async () => {
    const before = conversation(5000);
    const after = structuredClone(before);
    Object.assign(after.messages[2500] ?? {}, { content: 'edited' });
    const { changes, loaded, calls, stored } = await diff(before, after);
    expect(changes).toEqual([
      {
        op: 'replace',
        path: ['messages', 2500, 'content'],
        oldValue: before.messages[2500]?.content,
        value: 'edited',
      },
    ]);
    expect(stored).toBeGreaterThan(5900);
    expect(loaded).toBeLessThan(60);
    expect(calls).toBeLessThan(10);
  });

  test('[diff.2] equal states load nothing', async () => {
    expect(await diff(conversation(1000), conversation(1000))).toMatchObject({ changes: [], loaded: 0, calls: 0 });
  });

  test('[diff.3] an insertion in the middle of 1,000 messages is one addition', async () => {
    const before = conversation(1000);
    const message = { role: 'system', content: 'new '.repeat(40) };
    const after = { ...before, messages: before.messages.toSpliced(500, 0, message) };
    const { changes, loaded } = await diff(before, after);
    expect(changes).toEqual([{ op: 'add', path: ['messages', 500], value: message }]);
    expect(loaded).toBeLessThan(60);
  });

  test('[diff.3] dropping from the front is one removal per message, from the back of what is dropped', async () => {
    const before = conversation(1000);
    const { changes, loaded } = await diff(before, { ...before, messages: before.messages.slice(10) });
    expect(changes.map(brief)).toEqual([9, 8, 7, 6, 5, 4, 3, 2, 1, 0].map((at) => `remove $.messages[${at}]`));
    expect(loaded).toBeLessThan(80);
  });

  test('[diff.3] appending to an array is additions at its end', async () => {
    const before = conversation(300);
    const { changes } = await diff(before, { ...before, messages: [...before.messages, { a: 1 }, { a: 2 }] });
    expect(changes.map(note)).toEqual(['add $.messages[300] {"a":1}', 'add $.messages[301] {"a":2}']);
  });

  test('[diff.3] moving one message is one move, in both directions', async () => {
    const before = conversation(1000);
    const [message] = before.messages.slice(10, 11);
    const after = { ...before, messages: before.messages.toSpliced(10, 1).toSpliced(800, 0, message ?? {}) };
    const there = await diff(before, after);
    expect(there.changes).toEqual([{ op: 'move', from: ['messages', 10], path: ['messages', 800], value: message }]);
    expect(there.loaded).toBeLessThan(80);
    const back = await diff(after, before);
    expect(back.changes).toEqual([{ op: 'move', from: ['messages', 800], path: ['messages', 10], value: message }]);
  });

  test('[diff.3] an array may grow from a few elements to a tree, and shrink back', async () => {
    const before = { messages: conversation(400).messages.slice(0, 2) };
    const after = { messages: conversation(400).messages };
    expect((await diff(before, after)).changes.map(brief)).toEqual(
      Array.from({ length: 398 }, (_, at) => `add $.messages[${at + 2}]`),
    );
    expect((await diff(after, before)).changes).toHaveLength(398);
  });

  test('[diff.2] trees of different heights are aligned', async () => {
    const before = conversation(5000);
    const after = { ...before, messages: before.messages.slice(4900) };
    const { changes } = await diff(after, before);
    expect(changes).toHaveLength(4900);
    expect(changes.every(({ op }) => op === 'add')).toBe(true);
  });

  test('[diff.3] a reversal of thousands is still applied exactly', async () => {
    const before = conversation(2000);
    await diff(before, { ...before, messages: before.messages.toReversed() });
  });
});

test('[diff.3] with more moves than anyone reads, elements are compared place by place', async () => {
  const before = Array.from({ length: 11_000 }, (_, at) => at);
  const { changes } = await diff(
    before,
    before.map((at) => (at * 7919) % before.length),
  );
  expect(changes.filter(({ op }) => op === 'move')).toEqual([]);
  expect(changes.some(({ op }) => op === 'replace')).toBe(true);
});

test('[diff.4] a change may lie as deep as values may be nested', async () => {
  const nest = (leaf: number) => {
    let value: unknown = leaf;
    for (let depth = 0; depth < 240; depth++) value = { inner: [value] };
    return value;
  };
  const { changes } = await diff(nest(1), nest(2));
  expect(changes).toMatchObject([{ op: 'replace', oldValue: 1, value: 2 }]);
  expect(changes[0]?.path).toHaveLength(480);
});

describe('short arrays', () => {
  test('[diff.3] insertions, removals and replacements are told apart', async () => {
    expect(await notes([1, 2, 3], [1, 9, 2, 3])).toEqual(['add $[1] 9']);
    expect(await notes([1, 2, 3], [1, 3])).toEqual(['remove $[1] 2']);
    expect(await notes([1, 2, 3], [1, 7, 3])).toEqual(['replace $[1] 2 -> 7']);
    expect(await notes(['a', 'b'], [])).toEqual(['remove $[1] "b"', 'remove $[0] "a"']);
  });

  test('[diff.3] several moves have the indexes of their moment', async () => {
    expect(await notes(['m', 'n', 1, 2, 3], [1, 'm', 2, 'n', 3])).toEqual([
      'move $[0] -> $[2] "m"',
      'move $[0] -> $[3] "n"',
    ]);
  });

  test('[diff.3] an element with the same id is the same thing, whatever comes before it', async () => {
    const before = [
      { id: 'a', n: 1 },
      { id: 'b', n: 1 },
      { id: 'c', n: 1 },
    ];
    const after = [
      { id: 'x', n: 9 },
      { id: 'b', n: 2 },
      { id: 'c', n: 2 },
    ];
    expect(await notes(before, after)).toEqual([
      'remove $[0] {"id":"a","n":1}',
      'add $[0] {"id":"x","n":9}',
      'replace $[1].n 1 -> 2',
      'replace $[2].n 1 -> 2',
    ]);
  });

  test('[diff.3] without ids, elements at the same place and of the same kind are the same thing', async () => {
    expect(await notes([{ n: 1 }, [1], 'x'], [{ n: 2 }, [2], 'y'])).toEqual([
      'replace $[0].n 1 -> 2',
      'replace $[1][0] 1 -> 2',
      'replace $[2] "x" -> "y"',
    ]);
    expect(await notes([{ n: 1 }], [[2]])).toEqual(['remove $[0] {"n":1}', 'add $[0] [2]']);
  });
});

describe('objects', () => {
  test('[diff.4] a change deep inside is named by its whole path', async () => {
    expect(await notes({ a: { b: { c: 1, d: 2 } } }, { a: { b: { c: 1, d: 3 } } })).toEqual(['replace $.a.b.d 2 -> 3']);
  });

  test('[diff.4] a key added at the end is one addition, also in a large object', async () => {
    expect(await notes({ a: 1 }, { a: 1, b: 2 })).toEqual(['add $.b 2']);
    const large = Object.fromEntries(
      Array.from({ length: 3000 }, (_, at) => [`key${at}`, { size: at, body: 'x'.repeat(80) }]),
    );
    const { changes, loaded } = await diff(large, { ...large, last: 1 });
    expect(changes.map(note)).toEqual(['add $.last 1']);
    expect(loaded).toBeLessThan(60);
  });

  test('[diff.4] a key of a large object is removed or changed without loading the rest', async () => {
    const large = Object.fromEntries(
      Array.from({ length: 3000 }, (_, at) => [`key${at}`, { size: at, body: 'x'.repeat(80) }]),
    );
    const { key1500: _, ...rest } = large;
    const removed = await diff(large, rest);
    expect(removed.changes.map(brief)).toEqual(['remove $.key1500']);
    expect(removed.loaded).toBeLessThan(60);
    const changed = await diff(large, { ...large, key1500: { size: 1500, body: 'y' } });
    expect(changed.changes.map(brief)).toEqual(['replace $.key1500.body']);
    expect(changed.loaded).toBeLessThan(60);
  });

  test('[diff.5] a key inserted before others takes them along, because order is part of the value', async () => {
    expect(await notes({ a: 1, b: 2 }, { x: 0, a: 1, b: 2 })).toEqual([
      'remove $.a 1',
      'remove $.b 2',
      'add $.x 0',
      'add $.a 1',
      'add $.b 2',
    ]);
    expect(await notes({ a: 1, b: 2, c: 3 }, { a: 1, c: 3, b: 2 })).toEqual([
      'remove $.b 2',
      'remove $.c 3',
      'add $.c 3',
      'add $.b 2',
    ]);
  });

  test('[diff.5] keys that the engine sorts are never out of order', async () => {
    expect(await notes({ 1: 'a', 3: 'c', z: 0 }, { 1: 'a', 2: 'b', 3: 'c', z: 0 })).toEqual(['add $["2"] "b"']);
  });

  test('[diff.4] other kinds are replaced as a whole', async () => {
    expect(await notes({ a: [1] }, { a: { 0: 1 } })).toEqual(['replace $.a [1] -> {"0":1}']);
    const bare = Object.assign(Object.create(null), { b: 1 });
    expect((await diff({ a: { b: 1 } }, { a: bare })).changes.map(brief)).toEqual(['replace $.a']);
    expect((await diff({ a: { b: 1 } }, { a: new Map([['b', 1]]) })).changes.map(brief)).toEqual(['replace $.a']);
  });

  test('[diff.1] hostile keys are plain data', async () => {
    const before = JSON.parse('{"__proto__":{"a":1},"constructor":1,"$":0}');
    const after = JSON.parse('{"__proto__":{"a":2},"constructor":2,"$":{"$":0}}');
    expect(await notes(before, after)).toEqual([
      'replace $.__proto__.a 1 -> 2',
      'replace $.constructor 1 -> 2',
      'replace $.$ 0 -> {"$":0}',
    ]);
  });
});

describe('other values', () => {
  test('[diff.5] map entries with texts as keys change one by one', async () => {
    const before = new Map([
      ['a', { n: 1 }],
      ['b', { n: 1 }],
    ]);
    const after = new Map([
      ['a', { n: 1 }],
      ['b', { n: 2 }],
      ['c', { n: 3 }],
    ]);
    expect(await notes(before, after)).toEqual(['add $.c {"n":3}', 'replace $.b.n 1 -> 2']);
    expect(await notes(after, before)).toEqual(['remove $.c {"n":3}', 'replace $.b.n 2 -> 1']);
  });

  test('[diff.5] an insertion into a large map loads few chunks', async () => {
    const entries = Array.from({ length: 3000 }, (_, at) => [`key${at}`, { body: `${at}`.repeat(30) }] as const);
    const { changes, loaded } = await diff(new Map(entries), new Map([...entries, ['new', { body: 'b' }]]));
    expect(changes).toEqual([{ op: 'add', path: ['new'], value: { body: 'b' } }]);
    expect(loaded).toBeLessThan(60);
  });

  test('[diff.5] a change at a key that is no text replaces the map', async () => {
    expect((await diff({ m: new Map([[1, 'a']]) }, { m: new Map([[1, 'b']]) })).changes).toEqual([
      { op: 'replace', path: ['m'], oldValue: new Map([[1, 'a']]), value: new Map([[1, 'b']]) },
    ]);
  });

  test('[diff.4] sets, dates, errors, bytes and instances are replaced as a whole, with real values', async () => {
    const before = { s: new Set([1]), d: new Date(1), b: new Uint8Array([1]), p: new Point(1), u: undefined, n: 1n };
    const after = { s: new Set([2]), d: new Date(2), b: new Uint8Array([2]), p: new Point(2), u: null, n: 2n };
    const { changes } = await diff(before, after);
    expect(changes).toEqual(
      Object.entries(after).map(([key, value]) => ({
        op: 'replace',
        path: [key],
        oldValue: before[key as keyof typeof before],
        value,
      })),
    );
  });

  test('[diff.4] a long text is replaced with both whole texts', async () => {
    const text = 'a long text, '.repeat(5000);
    const { changes } = await diff({ text }, { text: `${text}!` });
    expect(changes).toEqual([{ op: 'replace', path: ['text'], oldValue: text, value: `${text}!` }]);
  });

  test('[diff.1] the root may be of any kind', async () => {
    expect(await notes(1, 'a')).toEqual(['replace $ 1 -> "a"']);
    expect(await notes(null, null)).toEqual([]);
    expect(await notes([], {})).toEqual(['replace $ [] -> {}']);
  });

  test('[diff.6] values of changes share nothing with each other', async () => {
    const item = { list: [1, 2, 3], text: 'x'.repeat(300) };
    const { changes } = await diff({ items: [] }, { items: [item, structuredClone(item)] });
    const [one, other] = changes.map((change) => ('value' in change ? change.value : undefined));
    expect(one).toEqual(other);
    expect(one).not.toBe(other);
  });

  test('[diff.6] a chunk that cannot be loaded is an error', async () => {
    const { root } = codec.encode(conversation(100));
    const failing = diffStates({
      before: root,
      after: codec.encode({}).root,
      load: async () => [],
      codec,
    });
    await expect(failing).rejects.toSatisfy((error: unknown) => hasErrorCode(error, 'CORRUPT'));
  });
});

test('[diff.6] changes are counted in all and per top-level field', async () => {
  const before = { a: [1, 2, 3], b: { x: 1 }, c: 1 };
  const after = { a: [3, 1, 2, 4], b: { y: 1 }, c: 2 };
  expect(countChanges(await diff(before, after))).toEqual({
    total: { added: 2, removed: 1, modified: 1, moved: 1 },
    fields: {
      a: { added: 1, removed: 0, modified: 0, moved: 1 },
      b: { added: 1, removed: 1, modified: 0, moved: 0 },
      c: { added: 0, removed: 0, modified: 1, moved: 0 },
    },
  });
  expect(countChanges(await diff(1, 2))).toEqual({
    total: { added: 0, removed: 0, modified: 1, moved: 0 },
    fields: {},
  });
});
