import { deepStrictEqual } from 'node:assert/strict';
import fc from 'fast-check';
import { apply, create } from 'mutative';
import { expect, test } from 'vitest';
import { StateCodec } from '../../core/state-codec.ts';
import { freezeState } from '../../manager/freeze.ts';
import { applyChanges, changesBetween } from './state-changes.ts';
import { StateValues } from './state-values.ts';

const values = new StateValues(new StateCodec());

const key = fc.constantFrom('a', 'b', 'length', 'constructor', '~1', '');
const leaf = fc.oneof(
  fc.integer({ min: 0, max: 3 }),
  fc.constantFrom('x', null, undefined, -0, Number.NaN),
  fc.date({ noInvalidDate: true }),
  fc.uint8Array({ maxLength: 2 }),
);
const { state } = fc.letrec((tie) => ({
  value: fc.oneof({ depthSize: 'small' }, leaf, tie('state'), fc.array(tie('value'), { maxLength: 4 })),
  state: fc.dictionary(key, tie('value'), { maxKeys: 4, noNullPrototype: true }),
}));

test('[Y40] the changes between two states lead from one to the other, in a draft and out of it', () => {
  fc.assert(
    fc.property(state, state, fc.boolean(), (first, second, isFrozen) => {
      const before = { root: first };
      const after = { root: second };
      if (isFrozen) freezeState(before);
      const changes = changesBetween(values, before, after);
      freezeState(changes);
      const plain = values.copyWhole(before);
      applyChanges(values, plain, changes);
      deepStrictEqual(plain, after);
      const drafted = create(before, (draft) => applyChanges(values, draft, changes));
      deepStrictEqual(drafted, after);
      deepStrictEqual(apply(before, changes), after); // as the end of a turn is settled
    }),
    { numRuns: 300 },
  );
});

test('[Y40] equal states have no changes between them, and a copy is equal and its own', () => {
  fc.assert(
    fc.property(state, (given) => {
      const before = { root: given };
      expect(changesBetween(values, before, values.copy(before))).toEqual([]);
      const copy = values.copyWhole(before);
      expect(changesBetween(values, before, copy)).toEqual([]);
      deepStrictEqual(copy, before);
      expect(copy).not.toBe(before);
    }),
    { numRuns: 300 },
  );
});
