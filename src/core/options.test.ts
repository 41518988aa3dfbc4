import { describe, expect, test } from 'vitest';
import {
  checkOptions,
  delayFrom,
  flag,
  listOf,
  type OptionChecks,
  oneOf,
  positive,
  string,
  wholeFrom,
} from './options.ts';
import { suggest } from './suggestion.ts';

type Options = { readonly branch?: string; readonly limit?: number; readonly onDifference?: 'fail' | 'warn' };

const CHECKS: OptionChecks<Options> = {
  branch: string,
  limit: wholeFrom(1),
  onDifference: oneOf('fail', 'warn'),
  onDrift: { renamedTo: 'onDifference' },
};

const messageOf = (options: unknown): string => {
  try {
    checkOptions(options, CHECKS, 'session()');
  } catch (error) {
    expect(error).toMatchObject({ code: 'INVALID_INPUT' });
    return (error as Error).message;
  }
  return '';
};

describe('options of a call', () => {
  test('[input.1] options that are known and fit are accepted; undefined counts as left out', () => {
    expect(messageOf({})).toBe('');
    expect(messageOf({ branch: 'x', limit: 1, onDifference: undefined })).toBe('');
    expect(messageOf({ onDrift: undefined, branch: undefined })).toBe(
      '"onDrift" is not an option of session(); use "onDifference".',
    );
  });

  test('[input.1] an unknown option is refused with the one that was probably meant, or with all', () => {
    expect(messageOf({ brnach: 'x' })).toBe('"brnach" is not an option of session(); did you mean "branch"?');
    expect(messageOf({ on_difference: 'x' })).toBe(
      '"on_difference" is not an option of session(); did you mean "onDifference"?',
    );
    expect(messageOf({ q: 1 })).toBe('"q" is not an option of session(); known: branch, limit, onDifference.');
    expect(messageOf({ toString: 1 })).toContain('"toString" is not an option');
  });

  test('[input.1] a token that is passed as an option, or as its name, is not shown', () => {
    const token = `ghp_${'a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8'}`;
    for (const options of [{ limit: token }, { [token]: 1 }]) {
      let refused: unknown;
      try {
        checkOptions(options, { limit: wholeFrom(1) }, 'list()');
      } catch (error) {
        refused = error;
      }
      expect(refused).toMatchObject({ message: expect.stringContaining('[secret ') });
      expect(`${(refused as Error).message} ${JSON.stringify(refused)}`).not.toContain('a1B2');
    }
  });

  test('[input.1] an option of another type is refused with what was found', () => {
    expect(messageOf({ branch: 3 })).toBe('The option "branch" of session() must be a string; found 3.');
    expect(messageOf({ limit: '3' })).toBe(
      'The option "limit" of session() must be a whole number of 1 or more; found "3".',
    );
    expect(messageOf({ onDifference: 'stop' })).toBe(
      'The option "onDifference" of session() must be one of "fail", "warn"; found "stop".',
    );
    expect(messageOf(null)).toBe('The options of session() must be an object; found null.');
    expect(messageOf('main')).toBe('The options of session() must be an object; found "main".');
    expect(messageOf([])).toBe('The options of session() must be an object; found a list.');
  });

  test.each([Number.NaN, -1, 0, 1.5, Number.POSITIVE_INFINITY, '1', null, 1n])('[input.1] %s is no limit', (limit) => {
    expect(messageOf({ limit })).toContain('must be a whole number of 1 or more; found ');
  });

  test('[input.1] checks say what is allowed and what was found', () => {
    expect(listOf(flag)([true, 'x'])).toEqual({ at: '[1]', problem: 'must be true or false; found "x"' });
    expect(delayFrom(0)(2 ** 31)).toBe(`must be a whole number from 0 to ${2 ** 31 - 1}; found ${2 ** 31}`);
    expect(positive(0.5)).toBeUndefined();
    expect(positive(new Map())).toBe('must be a number above 0; found a Map');
    expect(string(() => 1)).toBe('must be a string; found a function');
    expect(flag('y'.repeat(100))).toBe(`must be true or false; found "${'y'.repeat(40)}…"`);
  });
});

describe('suggestions', () => {
  test.each([
    ['keepLsat', 'keepLast'],
    ['agentid', 'agentId'],
    ['max_age_days', 'maxAgeDays'],
    ['typ', 'type'],
    ['max', 'maxAgeDays'],
    ['q', undefined],
    ['something else', undefined],
    ['', undefined],
  ])('[input.1] %j is probably %j', (word, meant) => {
    expect(suggest(word, ['keepLast', 'agentId', 'maxAgeDays', 'type'])).toBe(meant);
  });
});
