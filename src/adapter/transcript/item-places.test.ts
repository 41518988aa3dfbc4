import fc from 'fast-check';
import { expect, test } from 'vitest';
import { growList } from '../../core/tree/sameness.ts';
import { ItemPlaces } from './transcript-state.ts';

test('items are where a search from the front finds them, however a list changed', () => {
  const change = fc.record({
    keep: fc.double({ min: 0, max: 1, noNaN: true }),
    names: fc.array(fc.option(fc.constantFrom('a', 'b', 'c', 'd'), { nil: undefined }), { maxLength: 4 }),
    isLookedAt: fc.boolean(),
    isReadAgain: fc.boolean(),
  });
  const property = fc.property(fc.array(change, { maxLength: 20 }), (changes) => {
    const places = new ItemPlaces('id');
    let items: readonly { id: string | undefined }[] = [];
    for (const { keep, names, isLookedAt, isReadAgain } of changes) {
      const added = names.map((id) => ({ id }));
      items = growList(items, Math.round(keep * items.length), added);
      if (isReadAgain) items = items.map((item) => ({ ...item }));
      for (const name of isLookedAt ? ['a', 'b', 'c', 'd'] : []) {
        const at = items.findIndex(({ id }) => id === name);
        expect(places.find(items, name)).toBe(at < 0 ? undefined : at);
      }
    }
  });
  fc.assert(property, { numRuns: 300 });
});

test('what was added is looked at once, and nothing before it again', () => {
  let looks = 0;
  const item = (id: number) => ({
    get id() {
      looks++;
      return `id-${id}`;
    },
  });
  const places = new ItemPlaces('id');
  let items: readonly unknown[] = Array.from({ length: 5000 }, (_, at) => item(at));
  expect(places.find(items, 'id-4999')).toBe(4999);
  looks = 0;
  for (let at = 5000; at < 5010; at++) {
    items = growList(items, at, [item(at)]);
    expect(places.find(items, `id-${at}`)).toBe(at);
    expect(places.find(items, 'none')).toBeUndefined();
  }
  expect(looks).toBe(10);
});
