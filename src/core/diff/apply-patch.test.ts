import { describe, expect, test } from 'vitest';
import { hasErrorCode } from '../errors.ts';
import { applyPatch, type JsonPatchOperation, toPatch } from './index.ts';

function apply(state: unknown, ...patch: JsonPatchOperation[]): unknown {
  return applyPatch(state, patch);
}

describe('operations', () => {
  test('[diff.8] each operation of RFC 6902 does what it says', () => {
    expect(apply({ a: [1, 3] }, { op: 'add', path: '/a/1', value: 2 })).toEqual({ a: [1, 2, 3] });
    expect(apply({ a: [1] }, { op: 'add', path: '/a/-', value: 2 })).toEqual({ a: [1, 2] });
    expect(apply({ a: [1, 2] }, { op: 'remove', path: '/a/0' })).toEqual({ a: [2] });
    expect(apply({ a: 1 }, { op: 'replace', path: '/a', value: 2 })).toEqual({ a: 2 });
    expect(apply({ a: [1, 2, 3] }, { op: 'move', from: '/a/0', path: '/a/2' })).toEqual({ a: [2, 3, 1] });
    expect(apply({ a: 1 }, { op: 'copy', from: '/a', path: '/b' })).toEqual({ a: 1, b: 1 });
    expect(apply({ a: { b: [1] } }, { op: 'test', path: '/a', value: { b: [1] } })).toEqual({ a: { b: [1] } });
    expect(apply({ a: 1 }, { op: 'replace', path: '', value: [1] })).toEqual([1]);
    expect(apply({ 'a/b~c': 1 }, { op: 'replace', path: '/a~1b~0c', value: 2 })).toEqual({ 'a/b~c': 2 });
    expect(apply({ '': 1 }, { op: 'remove', path: '/' })).toEqual({});
  });

  test('[diff.8] maps take their keys as steps, and rich values stay what they are', () => {
    const state = {
      m: new Map<string, unknown>([
        ['a', 1],
        ['b', [1]],
      ]),
    };
    const patched = apply(
      state,
      { op: 'remove', path: '/m/a' },
      { op: 'add', path: '/m/b/0', value: new Date(5) },
      { op: 'add', path: '/m/c', value: undefined },
    );
    expect(patched).toEqual({
      m: new Map<string, unknown>([
        ['b', [new Date(5), 1]],
        ['c', undefined],
      ]),
    });
    expect(state.m).toEqual(
      new Map<string, unknown>([
        ['a', 1],
        ['b', [1]],
      ]),
    );
  });

  test('[diff.8] the state passed in is not touched, and what does not change is shared', () => {
    const state = Object.freeze({ a: Object.freeze([1, 2]), b: Object.freeze({ c: 1 }) });
    const patched = apply(state, { op: 'add', path: '/a/-', value: 3 }) as typeof state;
    expect(state).toEqual({ a: [1, 2], b: { c: 1 } });
    expect(patched).toEqual({ a: [1, 2, 3], b: { c: 1 } });
    expect(patched.b).toBe(state.b);
  });

  test('[diff.8] neither the patch nor a copied value changes with later operations', () => {
    const value = { n: [1] };
    const patched = apply(
      {},
      { op: 'add', path: '/a', value },
      { op: 'add', path: '/a/n/-', value: 2 },
      { op: 'copy', from: '/a', path: '/b' },
      { op: 'add', path: '/b/n/-', value: 3 },
      { op: 'add', path: '/a/x', value: 4 },
    );
    expect(value).toEqual({ n: [1] });
    expect(patched).toEqual({ a: { n: [1, 2], x: 4 }, b: { n: [1, 2, 3] } });
  });

  test('[diff.1] an operation whose name cannot be made a text is refused by its number', () => {
    for (const op of [{ toString: 'test' }, [{ toString: 1 }], null, Object.create(null)])
      expect(() => applyPatch({}, [{ op, path: '/a' }] as unknown as JsonPatchOperation[])).toThrow(
        expect.objectContaining({ code: 'INVALID_INPUT', details: expect.objectContaining({ index: 0 }) }),
      );
  });

  test('[diff.1] prototypes are neither read nor written', () => {
    const patched = apply({}, { op: 'add', path: '/__proto__', value: { polluted: true } }) as Record<string, unknown>;
    expect(Object.keys(patched)).toEqual(['__proto__']);
    expect(patched.polluted).toBeUndefined();
    expect(Object.getPrototypeOf(patched)).toBe(Object.prototype);
    const deeper = apply(patched, { op: 'replace', path: '/__proto__/polluted', value: 1 });
    expect(JSON.stringify(deeper)).toBe('{"__proto__":{"polluted":1}}');
    for (const path of ['/__proto__/x', '/constructor/prototype/x', '/toString'])
      expect(() => apply({}, { op: 'replace', path, value: 1 })).toThrow('operation 0');
    expect(() => apply([], { op: 'replace', path: '/length', value: 0 })).toThrow('no index');
    expect(Object.hasOwn(Object.prototype, 'x')).toBe(false);
  });
});

describe('copies', () => {
  const doubling = (times: number) =>
    Array.from({ length: times }, (_, n): JsonPatchOperation => ({ op: 'copy', from: '', path: `/x${n}` }));

  test('[diff.8] copies that double a value are refused while the patch is applied', () => {
    expect(() => applyPatch({ a: 1 }, doubling(60))).toThrow(
      /operation 1\d \(copy "\/x1\d"\): the patch copies more than/,
    );
    expect(() => applyPatch({ a: 'long '.repeat(20_000) }, doubling(60))).toThrow(/operation \d \(copy/);
    expect(() => applyPatch({ a: new Set(Array.from({ length: 9000 }, (_, n) => n)) }, doubling(60))).toThrow('copies');
  });

  test('[diff.8] a large state may be copied once', () => {
    const list = Array.from({ length: 150_000 }, (_, n) => n);
    expect(apply({ list }, { op: 'copy', from: '/list', path: '/again' })).toEqual({ list, again: list });
  });

  test('[diff.8] what was copied is parted when it is written to, deep inside, too', () => {
    const patched = apply(
      { a: { b: { c: [1] } } },
      { op: 'add', path: '/a/b/c/-', value: 2 },
      { op: 'copy', from: '/a/b', path: '/d' },
      { op: 'add', path: '/a/b/c/-', value: 3 },
      { op: 'add', path: '/d/c/-', value: 4 },
    );
    expect(patched).toEqual({ a: { b: { c: [1, 2, 3] } }, d: { c: [1, 2, 4] } });
  });
});

describe('errors', () => {
  const state = { a: [1, 2], d: new Date(0), s: 'text' };
  const refused: [string, unknown][] = [
    ['a leading zero', { op: 'remove', path: '/a/01' }],
    ['a sign', { op: 'remove', path: '/a/+1' }],
    ['a negative index', { op: 'remove', path: '/a/-1' }],
    ['the end of an array', { op: 'remove', path: '/a/-' }],
    ['an index beyond the end', { op: 'add', path: '/a/3', value: 1 }],
    ['a removal at the end', { op: 'remove', path: '/a/2' }],
    ['a key that is absent', { op: 'replace', path: '/b', value: 1 }],
    ['a parent that is absent', { op: 'add', path: '/b/c', value: 1 }],
    ['a step into a text', { op: 'add', path: '/s/0', value: 'x' }],
    ['a step into a date', { op: 'add', path: '/d/x', value: 1 }],
    ['removal of the root', { op: 'remove', path: '' }],
    ['a move into itself', { op: 'move', from: '/a', path: '/a/0' }],
    ['a failed test', { op: 'test', path: '/a/0', value: 2 }],
    ['a value that is missing', { op: 'add', path: '/x' }],
    ['an operation that is unknown', { op: 'merge', path: '/a' }],
    ['a pointer without a slash', { op: 'remove', path: 'a' }],
    ['a pointer with a broken escape', { op: 'remove', path: '/a~2' }],
    ['a move from nowhere', { op: 'move', path: '/a' }],
    ['no operation', null],
  ];

  test.each(refused)('[diff.8] %s is refused with the number of the operation', (_, operation) => {
    const patch = [{ op: 'test', path: '/s', value: 'text' }, operation] as JsonPatchOperation[];
    let caught: unknown;
    try {
      applyPatch(state, patch);
    } catch (error) {
      caught = error;
    }
    expect(hasErrorCode(caught, 'INVALID_INPUT')).toBe(true);
    expect((caught as Error).message).toContain('operation 1');
    const path = (operation as { path?: string } | null)?.path;
    expect(caught).toMatchObject({ details: { index: 1, ...(path === undefined ? {} : { path }) } });
  });
});

test('[diff.8] a diff becomes a patch with JSON Pointers', () => {
  expect(
    toPatch({
      changes: [
        { op: 'remove', path: ['a', 1], oldValue: 0 },
        { op: 'move', from: ['a', 2], path: ['a', 0], value: 0 },
        { op: 'add', path: ['x/y', '~'], value: 1 },
        { op: 'replace', path: [], oldValue: 1, value: 2 },
      ],
    }),
  ).toEqual([
    { op: 'remove', path: '/a/1' },
    { op: 'move', from: '/a/2', path: '/a/0' },
    { op: 'add', path: '/x~1y/~0', value: 1 },
    { op: 'replace', path: '', value: 2 },
  ]);
});
