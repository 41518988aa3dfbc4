import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  type CheckpointId,
  createCheckpointIds,
  idAfter,
  isCheckpointId,
  parseName,
  parseSessionId,
  SHORT_ID_CHARS,
  timeOfId,
} from './id.ts';

test('[input.3] ids are well-formed and rise, also when the clock stands still or steps back', () => {
  fc.assert(
    fc.property(
      fc.array(fc.integer({ min: 0, max: 2 ** 41 }), { minLength: 2, maxLength: 50 }),
      fc.uint8Array({ minLength: 12, maxLength: 12 }),
      (times, random) => {
        let at = 0;
        const next = createCheckpointIds({ now: () => times[at] ?? 0, randomBytes: () => random });
        const ids: string[] = [];
        for (; at < times.length; at++) ids.push(next());
        expect(ids.every(isCheckpointId)).toBe(true);
        expect(ids).toEqual([...new Set(ids)].sort());
      },
    ),
  );
});

test('[input.3] the beginnings of ids of one moment differ', () => {
  const random = (size: number) => new Uint8Array(size).fill(30);
  const next = createCheckpointIds({ now: () => 5, randomBytes: random });
  const ids = Array.from({ length: 40 }, () => next());
  expect(new Set(ids.slice(0, 34).map((id) => id.slice(0, SHORT_ID_CHARS))).size).toBe(34);
  expect(ids).toEqual([...new Set(ids)].sort()); // where no beginning is left, the end counts
});

test('[input.3] a child has a greater id than its parent, whoever made that and whatever its clock said', () => {
  const parent = 'chk_7zzzzzzzzzzzzzzzzzzzzz' as CheckpointId;
  const next = createCheckpointIds({ now: () => 5, randomBytes: () => new Uint8Array(12).fill(31) });
  const early = next();
  const child = next(parent);
  expect(child > parent && parent > early).toBe(true);
  expect(isCheckpointId(child)).toBe(true);
  expect(next() > child).toBe(true);
});

test('[input.3] after an id at the end of the id space comes a greater one, or a clear error; other ids stay with the clock', () => {
  const next = createCheckpointIds({ now: () => 5, randomBytes: () => new Uint8Array(12) });
  const early = next();
  for (const parent of ['chk_zzzzzzzzzyzzzzzzzzzzzz', 'chk_zzzzzzzzzzzzzzzzzzzzzy'] as CheckpointId[]) {
    const child = next(parent);
    expect(child > parent && isCheckpointId(child)).toBe(true);
  }
  const last = 'chk_zzzzzzzzzzzzzzzzzzzzzz' as CheckpointId;
  const refused = { code: 'INVALID_INPUT', details: { id: last } };
  expect(() => next(last)).toThrow(expect.objectContaining(refused));
  expect(() => idAfter(last)).toThrow(expect.objectContaining(refused));
  const later = next();
  expect(later > early && timeOfId(later) === 5).toBe(true);
});

test.each([-1, 1.5, 2 ** 60])('[input.3] an id is well-formed also if the clock says %d', (time) => {
  const next = createCheckpointIds({ now: () => time, randomBytes: (size) => new Uint8Array(size) });
  expect(isCheckpointId(next())).toBe(true);
});

test('[input.2] names are data: anything but control characters and lone surrogates is taken, up to 512 characters', () => {
  for (const name of ['../../etc', 'a b', "x'); DROP", 'ключ', '😀', 'CON', '.', 'a'.repeat(512)])
    expect(parseSessionId(name)).toBe(name);
  for (const name of ['', 'a\0b', 'a\nb', '\ud800', 'a'.repeat(513), 5, null, undefined]) {
    expect(() => parseName(name, 'A branch name')).toThrow(/A branch name must be a string/);
  }
});
