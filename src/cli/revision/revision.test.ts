import { describe, expect, test } from 'vitest';
import { parseDuration, parseTime } from '../../manager/revision/parse-time.ts';
import { findAt, openAt, parseStatePath, setAt } from '../../view/state-path.ts';
import { parseRange } from './resolve-revision.ts';

const NOW_MS = Date.UTC(2026, 0, 31, 12);

describe('times', () => {
  test.each([
    ['2h ago', '2026-01-31T10:00:00.000Z'],
    ['90 min', '2026-01-31T10:30:00.000Z'],
    ['1.5 days ago', '2026-01-30T00:00:00.000Z'],
    ['yesterday', '2026-01-30T12:00:00.000Z'],
    ['now', '2026-01-31T12:00:00.000Z'],
    ['2026-01-30', '2026-01-30T00:00:00.000Z'],
    ['2026-01-30 08:15', '2026-01-30T08:15:00.000Z'],
    ['2026-01-30T08:15:00+02:00', '2026-01-30T06:15:00.000Z'],
  ])('[cli.4] "%s" is %s', (text, iso) => {
    expect(parseTime(text, NOW_MS).toISOString()).toBe(iso);
  });

  test.each(['', 'soon', '5 fortnights', '-2h', '2026-13-40', '2026-02-30', '2026-02-29 12:00'])(
    '[cli.4] "%s" is no time',
    (text) => {
      expect(() => parseTime(text, NOW_MS)).toThrow(/is no (time|duration)/);
    },
  );

  test('[cli.14] durations', () => {
    expect(['30d', '2 weeks', '45s', '1 hour'].map(parseDuration)).toEqual([
      2_592_000_000, 1_209_600_000, 45_000, 3_600_000,
    ]);
    expect(() => parseDuration('30')).toThrow('is no duration');
    expect(parseDuration('1.001 min')).toBe(60_060); // not 60059.99999999999
    expect(() => parseDuration('99999999999d')).toThrow('"99999999999d" is too long');
    expect(() => parseTime('99999999999d ago', NOW_MS)).toThrow('"99999999999d" is too long');
    expect(parseTime('100000000d ago', NOW_MS).getTime()).toBeLessThan(0);
  });
});

describe('ranges', () => {
  test('[cli.4] either side may be left out', () => {
    expect(parseRange('a..b')).toEqual({ from: 'a', to: 'b' });
    expect(parseRange('a..')).toEqual({ from: 'a', to: '@' });
    expect(parseRange('..b')).toEqual({ from: undefined, to: 'b' });
    expect(parseRange('a')).toBeUndefined();
    expect(() => parseRange('a...b')).toThrow('is not a range');
  });
});

describe('paths', () => {
  const state = {
    list: [{ a: 1 }, { a: 2 }],
    'odd key': { 'x.y': 3 },
    map: new Map<unknown, unknown>([['k', 4]]),
    n: null,
  };

  test.each([
    ['$', state],
    ['$.list[1].a', 2],
    ['list[-1].a', 2],
    ['list.0.a', 1],
    ['/list/0/a', 1],
    ['$["odd key"]["x.y"]', 3],
    ['/odd key/x.y', 3],
    ['map.k', 4],
  ])('[cli.7] %s', (path, value) => {
    expect(openAt(state, parseStatePath(path))).toBe(value);
  });

  test("[cli.7] what leads nowhere says how far it went, and never reaches what is not the state's own", () => {
    expect(() => openAt(state, parseStatePath('list[7].a'))).toThrow('$.list is a list of 2');
    expect(() => openAt(state, parseStatePath('n.x'))).toThrow('$.n is null');
    expect(() => openAt(state, parseStatePath('constructor'))).toThrow('has no $.constructor');
    expect(findAt(state, ['list', 0, '__proto__'])).toBeUndefined();
    expect(() => parseStatePath('a..b')).toThrow('is no path');
    expect(() => parseStatePath('a[x]')).toThrow('is no path');
  });

  test('[cli.10] values are set in place; the last step may be new, and is never inherited', () => {
    const target = { list: [1, 2], deep: {} as Record<string, unknown> };
    setAt(target, parseStatePath('list[-1]'), 'last');
    setAt(target, parseStatePath('/list/-'), 'more');
    setAt(target, ['deep', '__proto__'], { polluted: true });
    expect(target.list).toEqual([1, 'last', 'more']);
    expect(Object.getOwnPropertyNames(target.deep)).toEqual(['__proto__']);
    expect(({} as Record<string, unknown>).polluted).toBeUndefined();
    expect(() => setAt(target, parseStatePath('list[9]'), 1)).toThrow('has no place 9');
    expect(() => setAt(target, parseStatePath('list[0].x'), 1)).toThrow('it has no x');
    expect(setAt(target, [], 'whole')).toBe('whole');
  });
});
