import { expect, test } from 'vitest';
import { KeptValues } from './store-chunks.ts';

test('[langgraph.15] what is kept is bounded: what came first goes first, and what is too large is not kept', () => {
  const kept = new KeptValues<string, { size: number }>(10, ({ size }) => size);
  const keys = ['a', 'b', 'c', 'd'];
  const held = () => keys.filter((key) => kept.get(key) !== undefined);
  kept.set('a', { size: 4 });
  kept.set('b', { size: 4 });
  kept.set('a', { size: 2 });
  expect(held()).toEqual(['a', 'b']);
  kept.set('c', { size: 5 });
  expect(held()).toEqual(['a', 'c']);
  kept.set('d', { size: 11 });
  expect(held()).toEqual([]);
  kept.set('b', { size: 10 });
  expect(held()).toEqual(['b']);
});
