import { describe, expect, test } from 'vitest';
import { SecretRef } from '../../core/secret-ref.ts';
import { createStyle } from '../terminal/style.ts';
import type { CheckpointOutput } from './checkpoint-text.ts';
import { formatGraph } from './graph.ts';
import { toJsonForm } from './json-form.ts';
import { findMessages, readMessage } from './message-text.ts';
import { Redaction } from './redaction-rules.ts';

describe('JSON for people', () => {
  test('[Z10] every value that a state may hold has a form', () => {
    const value = {
      at: new Date(0),
      big: 12n,
      odd: [Number.NaN, undefined, -0],
      map: new Map([['a', 1]]),
      keys: new Map([[1, 'a']]),
      set: new Set(['x']),
      url: new URL('https://example.com/a'),
      pattern: /a+/g,
      bytes: new Uint8Array(3),
      secret: new SecretRef('apiKey'),
      error: new TypeError('no'),
    };
    expect(toJsonForm(value)).toEqual({
      at: '1970-01-01T00:00:00.000Z',
      big: '12n',
      odd: ['NaN', null, -0],
      map: { a: 1 },
      keys: [[1, 'a']],
      set: ['x'],
      url: 'https://example.com/a',
      pattern: '/a+/g',
      bytes: '<3 bytes>',
      secret: '[secret apiKey]',
      error: 'TypeError: no',
    });
    expect(JSON.stringify(toJsonForm(JSON.parse('{"__proto__":{"a":1}}')))).toBe('{"__proto__":{"a":1}}');
  });
});

describe('messages', () => {
  test('[Z11] the forms that agents use are read as messages, and nothing else is', () => {
    expect(readMessage({ role: 'user', content: 'hi' })).toEqual({ speaker: 'user', text: 'hi' });
    expect(readMessage({ from: 'coder', text: 'done' })).toEqual({ speaker: 'coder', text: 'done' });
    expect(readMessage({ role: 'assistant', content: null, tool_calls: [{ name: 'f' }] })).toEqual({
      speaker: 'assistant',
      text: '[call] {"name":"f"}',
    });
    expect(
      readMessage({
        role: 'user',
        content: [
          { type: 'text', text: 'a' },
          { type: 'image', url: 'u' },
        ],
      })?.text,
    ).toBe('a\n[image] {"type":"image","url":"u"}');
    for (const other of [
      { role: 'user' },
      { content: 'x' },
      'x',
      null,
      ['user', 'x'],
      { type: 'a', content: { deep: 1 } },
    ])
      expect(readMessage(other)).toBeUndefined();
    expect(findMessages({ messages: [{ role: 'a', content: 'b' }, 3] })).toBeUndefined();
  });
});

describe('graph', () => {
  const draw = (...rows: [id: string, parentId?: string][]) =>
    formatGraph(
      rows.map(([id, parentId]) => ({ id, parentId }) as CheckpointOutput),
      ({ id }) => id,
      createStyle(false),
    )
      .trimEnd()
      .split('\n');

  test('[Z9] lanes run into the one they were forked from', () => {
    expect(draw(['d', 'b'], ['c', 'b'], ['b', 'a'], ['a'])).toEqual(['* d', '| * c', '|/', '* b', '* a']);
    expect(draw(['e', 'a'], ['d', 'a'], ['c', 'b'], ['b', 'a'], ['a'])).toEqual([
      '* e',
      '| * d',
      '| | * c',
      '| | * b',
      '|_|/',
      '|/',
      '* a',
    ]);
    expect(draw(['b'], ['a'])).toEqual(['* b', '* a']); // two roots
  });
});

describe('redaction', () => {
  const redact = (value: unknown, rules: Partial<ConstructorParameters<typeof Redaction>[0]>) => {
    const redaction = new Redaction({ texts: [], patterns: [], paths: [], ...rules });
    return [redaction.ofState(value), redaction.places];
  };

  test('[Z26] texts are taken out of texts, keys, maps and sets; what is untouched stays the same object', () => {
    const kept = { deep: ['x'] };
    const [state, places] = redact(
      {
        a: 'my s3cret, s3cret',
        's3cret key': 1,
        m: new Map([['s3cret', 's3cret']]),
        s: new Set(['s3cret']),
        kept,
        at: new Date(0),
      },
      { texts: ['s3cret'] },
    );
    expect(state).toEqual({
      a: 'my [redacted], [redacted]',
      '[redacted] key': 1,
      m: new Map([['[redacted]', '[redacted]']]),
      s: new Set(['[redacted]']),
      kept,
      at: new Date(0),
    });
    expect((state as { kept: unknown }).kept).toBe(kept);
    expect(places).toBe(5);
    const clean = { nothing: ['here'] };
    expect(redact(clean, { texts: ['s3cret'] })).toEqual([clean, 0]);
  });

  test('[Z26] patterns and paths', () => {
    expect(redact({ card: 'No 1234 5678.' }, { patterns: [/\d{4} \d{4}/gu] })).toEqual([{ card: 'No [redacted].' }, 1]);
    expect(redact({ a: [{ b: { c: 1 } }], x: 2 }, { paths: [['a', 0, 'b']] })).toEqual([
      { a: [{ b: '[redacted]' }], x: 2 },
      1,
    ]);
  });
});
