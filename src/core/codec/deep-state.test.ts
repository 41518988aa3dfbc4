import { expect, test } from 'vitest';
import { findIn, StateCodec } from './state-codec.ts';

function nested(depth: number): unknown {
  let value: unknown = { text: 'innermost' };
  for (let level = 0; level < depth; level++) value = { text: `level ${level}`, inner: value };
  return value;
}

test('[value.2] each text of a deep state is written a few times, however deep it is', () => {
  let written = 0;
  const codec = new StateCodec({ redact: () => void written++ });
  codec.encode(nested(400));
  expect(written).toBeLessThan(2 * 401);
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
