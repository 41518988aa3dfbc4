import { describe, expect, test } from 'vitest';
import { parseQuery } from '../find/query.ts';
import { datesIn } from './dates.ts';
import { stem } from './stem.ts';
import { similarity, termsOf } from './terms.ts';

describe('terms', () => {
  test.each([
    ['adopted adopting adoption', 'adopt'],
    ['connected connection connecting connections', 'connect'],
    ['hopping hopped', 'hop'],
    ['hoping hoped', 'hope'],
    ['ponies', 'poni'],
    ['relational', 'relat'],
    ['agreed', 'agre'],
    ['conflated', 'conflat'],
    ['went goes gone', 'go'],
    ['bought', 'buy'],
    ['happiness', 'happi'],
    ['sky', 'sky'],
    ['constructor', 'constructor'],
  ])('%s have the stem %s', (words, expected) => {
    expect(new Set(words.split(' ').map(stem))).toEqual(new Set([expected]));
  });

  test('stop words are left out, other scripts are kept, and scripts without spaces are cut into pairs', () => {
    expect(termsOf('What did the café in Zürich have?')).toEqual(['café', 'zürich']);
    expect(termsOf('東京都 is big')).toEqual(['東京', '京都', 'big']);
    expect(termsOf('हिन्दी')).toEqual(['हिन्दी']);
    expect(termsOf('__proto__ toString')).toEqual(['proto', 'tostr']);
  });

  test('texts are as alike as the terms they share', () => {
    expect(similarity(['a', 'b'], ['b', 'a'])).toBe(1);
    expect(similarity(['a', 'b', 'c'], ['a'])).toBeCloseTo(1 / 3);
    expect(similarity([], ['a'])).toBe(0);
  });
});

describe('dates', () => {
  const nowMs = Date.UTC(2024, 4, 15, 12);
  const day = (text: string) => Date.UTC(...(text.split('-').map(Number) as [number, number, number]));
  const found = (text: string) => datesIn(text, nowMs).map(({ fromMs, toMs }) => [fromMs, toMs]);

  test.each([
    ['on 7 May 2023', '2023-4-7', '2023-4-8'],
    ['on May 7th, 2023', '2023-4-7', '2023-4-8'],
    ['in May 2023', '2023-4-1', '2023-5-1'],
    ['in March', '2024-2-1', '2024-3-1'],
    ['in August', '2023-7-1', '2023-8-1'],
    ['on 2023-05-07', '2023-4-7', '2023-4-8'],
    ['in 2021', '2021-0-1', '2022-0-1'],
    ['yesterday', '2024-4-14', '2024-4-15'],
    ['last week', '2024-4-1', '2024-4-15'],
  ])('%s', (text, from, to) => {
    expect(found(`What happened ${text}?`)).toEqual([[day(from), day(to)]]);
  });

  test.each(['May I come in?', 'march on', '2023 sheep', 'nothing'])('%s has none', (text) =>
    expect(found(text)).toEqual([]),
  );
});

describe('questions', () => {
  const parse = (text: string, subjects = ['Ann', 'Bob Stone'], speaker = 'ann-1') =>
    parseQuery(text, { subjects, speaker, nowMs: 0 });

  test('[memory.13] names of subjects become a field and the question is turned to the first person', () => {
    expect(parse("What is Ann's favourite book?")).toMatchObject({
      subjects: new Set(['Ann']),
      terms: ['favourit', 'book'],
      firstPerson: 'What is my favourite book?',
    });
    expect(parse('Does Bob Stone own a boat?')).toMatchObject({
      subjects: new Set(['Bob Stone']),
      firstPerson: 'do I own a boat?',
    });
    expect(parse('Is Stone hard?').subjects.size).toBe(0);
    expect(parse('Annual report').subjects.size).toBe(0);
    expect(parse('Which user took bus 42?', ['user', '42']).terms).toEqual(['user', 'take', 'bu', '42']);
  });

  test('[memory.13] who asks about themselves asks about the speaker', () => {
    expect(parse('What do I like?').subjects).toEqual(new Set(['ann-1']));
    expect(parse('what is in it?').subjects.size).toBe(0);
  });

  test('[memory.13] names that look like patterns are only names', () => {
    expect(parse('What did Al.*(Bo say?', ['Al.*(Bo', '']).subjects).toEqual(new Set(['Al.*(Bo']));
  });
});
