import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import * as errors from '../../core/errors.ts';
import { describeError, exitCodeOf } from './exit-code.ts';

test('[cli.2] each error has its exit code; what is not known is a failure', () => {
  const {
    ClosedError,
    ConflictError,
    CorruptError,
    InvalidInputError,
    NotFoundError,
    StorageError,
    UnsupportedError,
    ReplayMismatchError,
  } = errors;
  const rows: [unknown, number][] = [
    [new StorageError(''), 1],
    [new ClosedError(''), 1],
    [new Error('any'), 1],
    ['a text', 1],
    [new InvalidInputError(''), 2],
    [new NotFoundError('', { details: { candidates: ['chk_a', 'chk_b'] } }), 2],
    [new CorruptError(''), 4],
    [new NotFoundError('', { details: { kind: 'storage' } }), 10],
    [new StorageError('', { details: { sqliteCode: 5 } }), 11],
    [new ConflictError('', { details: { kind: 'lease' } }), 11],
    [new NotFoundError('', { details: { candidates: [] } }), 13],
    [new ConflictError(''), 14],
    [new UnsupportedError(''), 15],
    [new ReplayMismatchError(''), 16],
    [new errors.ModelError(''), 17],
    [AbortSignal.abort().reason, 130],
  ];
  for (const [error, code] of rows) expect([String(error), exitCodeOf(error)]).toEqual([String(error), code]);
});

test('[cli.2] what the machine refuses is told in a sentence, without the stack of this program', () => {
  expect(() => readFileSync(`${import.meta.filename}/x`)).toThrow(
    expect.toSatisfy((error) =>
      /^ENOTDIR: .*x'\. Check the path, its permissions and the disk\.$/.test(describeError(error)),
    ),
  );
});
