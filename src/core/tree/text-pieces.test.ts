import fc from 'fast-check';
import { expect, test } from 'vitest';
import { drawn } from '../../../test/support/trials.ts';
import { cutBytes, cutText } from './text-pieces.ts';

/** A long text of few different characters: long enough for stretches, with pieces of all lengths. */
function longText(seed: number, length: number): string {
  let state = seed + 1;
  let text = '';
  while (text.length < length) {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    text += state.toString(36);
  }
  return text.slice(0, length);
}

const edit = fc.record({ at: fc.double({ min: 0, max: 1, noNaN: true }), drop: fc.nat(70_000), add: fc.nat(70_000) });

test('[value.2] a text that is cut on from another one has the pieces it has by itself', () => {
  fc.assert(
    fc.property(fc.nat(400_000), fc.array(edit, { minLength: 1, maxLength: 3 }), (length, edits) => {
      let text = longText(length, length);
      let before = { whole: text, ends: cutText(text).ends };
      for (const { at, drop, add } of edits) {
        const place = Math.floor(at * text.length);
        text = text.slice(0, place) + longText(add, add) + text.slice(place + drop);
        const { ends, prefix, suffix } = cutText(text, before);
        expect(ends).toEqual(cutText(text).ends);
        expect(ends.slice(0, prefix)).toEqual(before.ends.slice(0, prefix));
        expect(prefix + suffix).toBeLessThanOrEqual(Math.min(ends.length, before.ends.length));
        before = { whole: text, ends };
      }
    }),
    drawn(200),
  );
});

test('[value.2] of bytes that change the pieces up to the change are those before', () => {
  const bytes = new Uint8Array(50_000).map((_, at) => at % 251);
  const before = { whole: bytes, ends: cutBytes(bytes).ends };
  expect(before.ends).toEqual([12_288, 24_576, 36_864, 49_152, 50_000]);
  const changed = Uint8Array.from(bytes);
  changed[30_000] = 255;
  expect(cutBytes(changed, before).prefix).toBe(2);
  expect(cutBytes(bytes.subarray(0, 49_152), before)).toEqual({ ends: before.ends.slice(0, 4), prefix: 4, suffix: 0 });
});
