import fc from 'fast-check';
import { expect, test } from 'vitest';
import { checkProperty } from '../../../test/support/property.ts';
import { drawn } from '../../../test/support/trials.ts';
import { anyState, anyValue, isSameValue } from '../../../test/support/values.ts';
import { findIn, StateCodec } from '../codec/state-codec.ts';
import type { ChunkContent, Digest } from '../tree/chunk.ts';
import { applyPatch, diffStates, diffText, type StateDiff, toPatch } from './index.ts';

const codec = new StateCodec();

/** Compares two values by their stored form, and checks on the way that no chunk is loaded twice. */
async function diff(before: unknown, after: unknown): Promise<StateDiff> {
  const chunks = new Map<Digest, ChunkContent>();
  const [one, other] = [codec.encode(before), codec.encode(after)];
  for (const chunk of [...one.chunks, ...other.chunks]) chunks.set(chunk.digest, chunk);
  const loaded = new Set<Digest>();
  return await diffStates({
    before: one.root,
    after: other.root,
    load: async (digests) => {
      for (const digest of digests) {
        expect(loaded.has(digest)).toBe(false);
        loaded.add(digest);
      }
      return digests.map(findIn(chunks));
    },
    codec,
  });
}

/** Deep equality on Node 20 takes two invalid dates for different; the digest does not, and it sees the order of map entries. */
async function expectPatched(before: unknown, after: unknown): Promise<void> {
  const kept = codec.encode(before).root.digest;
  const patched = applyPatch(before, toPatch(await diff(before, after)));
  const later = codec.encode(after);
  expect(codec.encode(patched).root.digest).toBe(later.root.digest);
  const chunks = new Map(later.chunks.map((chunk) => [chunk.digest, chunk]));
  const isComparable = isSameValue(codec.decode(later.root, findIn(chunks)), after);
  expect(isSameValue(patched, after)).toBe(isComparable);
  expect(codec.encode(before).root.digest).toBe(kept);
}

type Edit = (value: unknown) => unknown;
type Fields = Record<string, unknown>;

const place = fc.nat(1_000_000);
const inserted = fc.oneof(anyValue, fc.record({ id: fc.nat(5), name: fc.string() }));

function editList(change: (list: unknown[], at: number) => void): (at: number) => Edit {
  return (at) => (value) => {
    if (!Array.isArray(value)) return value;
    const list = value.slice();
    change(list, list.length === 0 ? 0 : at % list.length);
    return list;
  };
}

function withEntries(value: unknown, change: (entries: [unknown, unknown][]) => void): unknown {
  if (value instanceof Map) {
    const entries = [...value];
    change(entries);
    return new Map(entries);
  }
  const prototype = typeof value === 'object' && value !== null ? Object.getPrototypeOf(value) : undefined;
  if (prototype !== Object.prototype && prototype !== null) return value;
  const entries: [unknown, unknown][] = Object.entries(value as Fields);
  change(entries);
  const target = Object.create(prototype) as object;
  for (const [key, item] of entries)
    Object.defineProperty(target, String(key), { value: item, writable: true, enumerable: true, configurable: true });
  return target;
}

const listEdit: fc.Arbitrary<Edit> = fc.oneof(
  fc.tuple(place, inserted).map(([at, item]) => editList((list, index) => void list.splice(index, 0, item))(at)),
  fc.tuple(place, inserted).map(([at, item]) => editList((list, index) => void list.splice(index, 1, item))(at)),
  fc.tuple(place, fc.nat(12)).map(([at, count]) => editList((list, index) => void list.splice(index, count))(at)),
  fc.tuple(place, place).map(([at, to]) =>
    editList((list, index) => {
      const [item] = list.splice(index, 1);
      if (list.length > 0) list.splice(to % list.length, 0, item);
    })(at),
  ),
  fc.tuple(place, place).map(([at, to]) =>
    editList((list, index) => {
      list.push(...list.splice(index, to % 20));
    })(at),
  ),
  fc.array(inserted, { maxLength: 80 }).map((items) => editList((list) => void list.push(...items))(0)),
  fc.constant(editList((list) => void list.reverse())(0)),
);

const key = fc.oneof(fc.string({ maxLength: 4 }), fc.constantFrom('__proto__', 'a', '$', '7', '12', '01', ''));
const fieldEdit: fc.Arbitrary<Edit> = fc.oneof(
  fc.tuple(key, place, inserted).map(
    ([name, at, item]): Edit =>
      (value) =>
        withEntries(value, (entries) => {
          const known = entries.findIndex(([other]) => other === name);
          if (known >= 0) entries.splice(known, 1);
          entries.splice(at % (entries.length + 1), 0, [name, item]);
        }),
  ),
  fc.tuple(key, inserted).map(
    ([name, item]): Edit =>
      (value) =>
        withEntries(value, (entries) => void entries.push([name, item])),
  ),
  fc.tuple(place, fc.nat(2)).map(
    ([at, count]): Edit =>
      (value) =>
        withEntries(value, (entries) => void entries.splice(at % (entries.length + 1), count)),
  ),
);

/** Applies an edit somewhere inside a value. */
function editAt(value: unknown, steps: readonly number[], edit: Edit): unknown {
  const [step, ...rest] = steps;
  if (step === undefined) return edit(value);
  if (Array.isArray(value) && value.length > 0)
    return value.map((item, at) => (at === step % value.length ? editAt(item, rest, edit) : item));
  const edited = withEntries(value, (entries) => {
    const entry = entries[step % (entries.length || 1)];
    if (entry !== undefined) entry[1] = editAt(entry[1], rest, edit);
  });
  return edited === value ? edit(value) : edited;
}

const edits = fc.array(
  fc.record({
    steps: fc.array(place, { maxLength: 4 }),
    edit: fc.oneof(
      listEdit,
      fieldEdit,
      inserted.map(
        (item): Edit =>
          () =>
            item,
      ),
    ),
  }),
  { minLength: 1, maxLength: 6 },
);

const largeObject = fc
  .uniqueArray(fc.tuple(fc.oneof(key, fc.nat(2000).map(String)), fc.oneof(fc.nat(9), inserted)), {
    maxLength: 150,
    selector: ([name]) => name,
  })
  .map((entries) => withEntries({}, (into) => void into.push(...entries)));
const largeMap = fc
  .array(fc.tuple(fc.oneof({ weight: 99, arbitrary: key }, { weight: 1, arbitrary: fc.nat() }), inserted), {
    maxLength: 120,
  })
  .map((entries) => new Map(entries));
const longList = fc.array(fc.oneof(fc.nat(30), fc.string({ minLength: 30, maxLength: 90 })), { maxLength: 900 });
const anything = fc.oneof(anyValue, anyState, largeObject, largeMap, longList);

test('[diff.1] applying the diff to the earlier state gives the later one, for any edits', async () => {
  const property = fc.asyncProperty(anything, edits, async (before, history) => {
    const after = history.reduce((value, { steps, edit }) => editAt(value, steps, edit), before);
    await expectPatched(before, after);
  });
  await checkProperty('random edits of states, `apply(a, diff(a, b)) = b` ([diff.1])', { property, full: 10_000 });
});

test('[diff.1] applying the diff to the earlier state gives the later one, for any two states', async () => {
  const property = fc.asyncProperty(anything, anything, async (before, after) => await expectPatched(before, after));
  await checkProperty('random pairs of states, `apply(a, diff(a, b)) = b` ([diff.1])', { property, full: 10_000 });
});

test('[diff.1] applying the diff gives the later state for two values of one kind', async () => {
  const pairs = fc.oneof(...[anyState, largeObject, largeMap, longList].map((kind) => fc.tuple<unknown[]>(kind, kind)));
  await fc.assert(
    fc.asyncProperty(pairs, async ([before, after]) => await expectPatched(before, after)),
    drawn(5_000),
  );
});

test('[diff.1] equal states have no changes', async () => {
  await fc.assert(
    fc.asyncProperty(anything, async (state) => {
      expect((await diff(state, state)).changes).toEqual([]);
    }),
    drawn(10_000),
  );
});

test('[diff.7] the parts of a text diff put together are the two texts', () => {
  const line = fc.oneof(fc.string({ maxLength: 20 }), fc.constantFrom('a b c', 'a x c', '', '\ud800', 'one two three'));
  const text = fc.array(line, { maxLength: 40 }).map((lines) => lines.join('\n'));
  fc.assert(
    fc.property(text, text, (before, after) => {
      const changes = diffText(before, after);
      const join = (op: string) =>
        changes.map((part) => (part.op === op || part.op === 'equal' ? part.text : '')).join('');
      expect(join('remove')).toBe(before);
      expect(join('add')).toBe(after);
      expect(changes.every(({ op }, at) => op !== changes[at + 1]?.op)).toBe(true);
    }),
    drawn(10_000),
  );
});
