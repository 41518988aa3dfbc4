import fc from 'fast-check';
import { expect, test } from 'vitest';
import { checkProperty } from '../../../test/support/property.ts';
import { drawn } from '../../../test/support/trials.ts';
import { anyState, anyValue, isSameValue } from '../../../test/support/values.ts';
import { type ChunkContent, checkChunk, type Digest } from '../tree/chunk.ts';
import { type EncodedState, findIn, StateCodec } from './state-codec.ts';

const codec = new StateCodec();

function store(into: Map<Digest, ChunkContent>, encoded: EncodedState): EncodedState {
  for (const chunk of encoded.chunks) {
    checkChunk(chunk);
    into.set(chunk.digest, chunk);
  }
  return encoded;
}

test('[value.1] what is decoded is what was encoded', async () => {
  const property = fc.property(fc.oneof(anyValue, anyState), (value) => {
    const chunks = new Map<Digest, ChunkContent>();
    const { root } = store(chunks, codec.encode(value));
    expect(isSameValue(codec.decode(root, findIn(chunks)), value)).toBe(true);
  });
  await checkProperty('random values round-trip ([value.1])', { property, full: 100_000 });
});

/** Drops what the state does not reach; throws if something it needs is absent. */
function keepReachable(chunks: Map<Digest, ChunkContent>, root: ChunkContent): void {
  const reachable = new Map<Digest, ChunkContent>();
  const visit = (content: ChunkContent) => {
    for (const digest of content.refs) {
      if (reachable.has(digest)) continue;
      const chunk = findIn(chunks)(digest);
      reachable.set(digest, chunk);
      visit(chunk);
    }
  };
  visit(root);
  chunks.clear();
  for (const [digest, chunk] of reachable) chunks.set(digest, chunk);
}

type Edit = (state: Record<string, unknown>) => void;

const index = fc.nat(1_000_000);
const edits: fc.Arbitrary<Edit> = fc.oneof(
  anyValue.map(
    (value): Edit =>
      (state) =>
        list(state, 'messages').push({ role: 'user', content: 'appended', extra: value }),
  ),
  fc.tuple(index, anyValue).map(
    ([at, value]): Edit =>
      (state) =>
        edit(list(state, 'messages'), at, (message) => Object.assign(message as object, { extra: value })),
  ),
  fc.tuple(index, fc.nat(5)).map(
    ([at, count]): Edit =>
      (state) =>
        void list(state, 'messages').splice(at % (list(state, 'messages').length + 1), count),
  ),
  fc.tuple(index, anyValue).map(
    ([at, value]): Edit =>
      (state) =>
        void list(state, 'messages').splice(at % (list(state, 'messages').length + 1), 0, { content: value }),
  ),
  fc.nat(8).map(
    (count): Edit =>
      (state) =>
        void list(state, 'messages').splice(0, count),
  ),
  fc.tuple(index, fc.integer()).map(
    ([at, value]): Edit =>
      (state) =>
        edit(list(state, 'numbers'), at, () => value),
  ),
  fc.array(fc.integer(), { maxLength: 50 }).map(
    (values): Edit =>
      (state) =>
        void list(state, 'numbers').push(...values),
  ),
  fc.tuple(fc.string({ maxLength: 8 }), anyValue).map(
    ([key, value]): Edit =>
      (state) =>
        void Object.defineProperty(state.files, key, { value, writable: true, enumerable: true, configurable: true }),
  ),
  index.map(
    (at): Edit =>
      (state) =>
        void delete (state.files as Record<string, unknown>)[Object.keys(state.files as object)[at % 50] ?? ''],
  ),
  anyValue.map(
    (value): Edit =>
      (state) =>
        void Object.assign(state, { rest: value }),
  ),
  fc.tuple(fc.nat(6), fc.nat(6), index).map(
    ([trimmed, appended, at]): Edit =>
      (state) => {
        const messages = list(state, 'messages');
        messages.splice(0, trimmed, ...Array.from({ length: at % 3 }, (_, n) => ({ content: `summary ${n}` })));
        for (let n = 0; n < appended; n++) messages.push({ role: 'user', content: `slid in ${at} ${n} `.repeat(8) });
        if (at % 2 === 0) messages.splice((at >> 4) % (messages.length + 1), 2, { content: 'in the middle too' });
      },
  ),
  fc.constant<Edit>((state) => void list(state, 'messages').reverse()),
  fc.constant<Edit>((state) => void Object.assign(state, structuredClone({ messages: state.messages }))),
);

/** structuredClone refuses some of our values; then there is no edit to see. */
function tryEdit(change: Edit, state: Record<string, unknown>): boolean {
  try {
    change(state);
    return true;
  } catch {
    return false;
  }
}

function list(state: Record<string, unknown>, key: string): unknown[] {
  return state[key] as unknown[];
}

function edit(items: unknown[], at: number, change: (item: unknown) => unknown): void {
  if (items.length > 0) items[at % items.length] = change(items[at % items.length]);
}

test('[value.1] an invalid date comes back as one', () => {
  const { root } = codec.encode([new Date(Number.NaN)]);
  const [date] = codec.decode(root, findIn(new Map())) as [Date];
  expect(date).toBeInstanceOf(Date);
  expect(date.getTime()).toBeNaN();
});

test('[value.2] the same state has the same digest, whatever edits led to it, and no in-place mutation is missed', async () => {
  const property = fc.property(anyState, fc.array(edits, { maxLength: 8 }), (state, history) => {
    const chunks = new Map<Digest, ChunkContent>();
    let encoded = store(chunks, codec.encode(state));
    for (const change of history) {
      if (!tryEdit(change, state)) continue;
      encoded = store(chunks, codec.encode(state, encoded));
      const fresh = codec.encode(state);
      expect(encoded.root.digest).toBe(fresh.root.digest);
      keepReachable(chunks, encoded.root); // only what the parent reaches is sure to be stored at the next save
    }
    expect(isSameValue(codec.decode(encoded.root, findIn(chunks)), state)).toBe(true);
  });
  await checkProperty('random edit histories, digest as if encoded anew ([value.2])', { property, full: 10_000 });
});

test('[save.2] what is composed is what was captured, whatever became of the live state meanwhile', () => {
  fc.assert(
    fc.property(anyState, fc.array(edits, { minLength: 1, maxLength: 6 }), (state, history) => {
      const chunks = new Map<Digest, ChunkContent>();
      let encoded: EncodedState | undefined;
      for (const change of history) {
        const { digest } = codec.encode(state).root;
        const captured = codec.capture(state, encoded);
        tryEdit(change, state);
        encoded = store(chunks, codec.compose(captured));
        expect(encoded.root.digest).toBe(digest);
        expect(codec.compose(captured)).toBe(encoded);
        keepReachable(chunks, encoded.root);
      }
    }),
    drawn(2_000),
  );
});

test('[value.2] a state that was decoded for editing is saved like one that never left the process', () => {
  fc.assert(
    fc.property(anyState, fc.array(edits, { maxLength: 4 }), (state, history) => {
      const chunks = new Map<Digest, ChunkContent>();
      const { root } = store(chunks, codec.encode(state));
      const loaded = codec.decodeForEditing(root, findIn(chunks));
      expect(codec.encode(loaded.state, loaded.encoded).root.digest).toBe(root.digest);
      for (const change of history) {
        tryEdit(change, loaded.state as Record<string, unknown>);
      }
      const after = store(chunks, codec.encode(loaded.state, loaded.encoded));
      expect(after.root.digest).toBe(codec.encode(loaded.state).root.digest);
      expect(isSameValue(codec.decode(after.root, findIn(chunks)), loaded.state)).toBe(true);
    }),
    drawn(2_000),
  );
});

test('[value.1] a state with 150,000 chunks is saved and read', () => {
  const codec = new StateCodec();
  const state = { list: Array.from({ length: 150_000 }, (_, at) => ({ at, text: 'x'.repeat(70) })) };
  const { root, chunks } = codec.encode(state);
  expect(chunks.length).toBeGreaterThan(150_000);
  const read = codec.decode(root, findIn(new Map(chunks.map((chunk) => [chunk.digest, chunk])))) as typeof state;
  expect(read.list.length).toBe(150_000);
  expect(read.list.at(-1)).toEqual(state.list.at(-1));
});
