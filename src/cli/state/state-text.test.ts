import { describe, expect, test } from 'vitest';
import { LinearPattern } from '../../core/pattern/linear-pattern.ts';
import { ForeignInstance } from '../../core/value/class-codec.ts';
import { SecretRef } from '../../core/value/secret-ref.ts';
import type { CheckpointOutput } from '../../view/checkpoint-output.ts';
import { toJsonForm } from '../../view/json-form.ts';
import { findMessages, readMessage } from '../../view/messages.ts';
import { Telling } from '../../view/search.ts';
import { viewOf } from '../../view/state-view.ts';
import { createStyle } from '../terminal/style.ts';
import { formatGraph } from './graph.ts';
import { Redaction } from './redaction-rules.ts';
import { formatState } from './state-text.ts';

describe('JSON for people', () => {
  test('[cli.7] every value that a state may hold has a form', () => {
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

test('[cli.7] a fleet that waits is shown with what it asks, and with the input of the operation', () => {
  const request = { kind: 'operation', message: 'May payer call pay (pay)?', input: { callId: '1', input: { n: 1 } } };
  const fleet = { messages: [], requests: { 'round-1-1': request } };
  const text = formatState({ kind: 'fleet', order: ['payer'], agents: {}, fleet }, createStyle(false));
  expect(text).toContain('asks  May payer call pay (pay)?\nwith  {"n":1}\n');
});

describe('messages', () => {
  test('[cli.8] the forms that agents use are read as messages, and nothing else is', () => {
    expect(readMessage({ role: 'user', content: 'hi' })).toEqual({ speaker: 'user', text: 'hi' });
    expect(readMessage({ from: 'coder', text: 'done' })).toEqual({ speaker: 'coder', text: 'done' });
    expect(readMessage({ role: 'assistant', content: null, tool_calls: [{ name: 'f' }] })).toEqual({
      speaker: 'assistant',
      text: '[call] f({})',
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

  test('[cli.8] messages of LangChain are read, in a state and as JSON, with what they call', () => {
    const data = { content: '', tool_calls: [{ name: 'refund', args: { order: 7 }, id: 'c' }] };
    const expected = { speaker: 'ai', text: '[call] refund({"order":7})' };
    expect(readMessage(new ForeignInstance('langchain.AIMessage', data))).toEqual(expected);
    expect(readMessage({ $class: 'langchain.AIMessageChunk', data })).toEqual(expected);
    const tool = new ForeignInstance('langchain.ToolMessage', { content: 'done', name: 'refund', tool_call_id: 'c' });
    expect(readMessage(tool)).toEqual({ speaker: 'tool refund', text: 'done' });
    expect(readMessage(new ForeignInstance('shop.Order', data))).toBeUndefined();
    const state = { channel_values: { messages: [tool] }, channel_versions: {} };
    expect(findMessages(state)).toHaveLength(1);
  });
});

describe('graph', () => {
  let cuts = new Map<string, string | undefined>();
  const draw = (...rows: [id: string, parentId?: string][]) =>
    formatGraph(
      rows.map(([id, parentId]) => ({ id, parentId }) as CheckpointOutput),
      ({ id }) => id,
      { style: createStyle(false), cuts },
    )
      .trimEnd()
      .split('\n');

  test('[cli.6] lanes run into the one they were forked from', () => {
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

  test('[cli.6] lineages that were cut are dotted, and lead to the ancestors that are there', () => {
    cuts = new Map([
      ['d', 'c'],
      ['c', 'a'],
      ['x', undefined],
    ]);
    expect(draw(['f', 'a'], ['e', 'd'], ['a', 'x'])).toEqual([
      '* f',
      '| * e',
      '| ┆ 2 pruned',
      '|/',
      '* a',
      '┆ 1 pruned',
    ]);
  });
});

describe('a message', () => {
  const matches = (...paths: string[]) => paths.map((path) => ({ path, text: 'take the tram' }));

  test('[cli.9] is told once, where it is said, however many copies and fields of it there are', () => {
    const telling = new Telling(viewOf({ kind: 'group_chat' }));
    const pending = ['$.chat.pendingReply.message.content', '$.agents.ann.histories.chat[1].content'];
    expect(telling.tell(matches(...pending))).toEqual([]);
    const said = [
      '$.agents.bob.histories.chat[1].content',
      '$.chat.messages[1].content',
      '$.chat.messages[1].turn[0].text',
    ];
    expect(telling.tell(matches(...said))).toEqual(matches('$.chat.messages[1].content'));
    expect(telling.tell(matches('$.agents.eve.histories.chat[1].content'))).toEqual([]);
    expect(telling.tell(matches('$.chat.messages[12].content'))).toEqual(matches('$.chat.messages[12].content'));
    expect(telling.rest()).toEqual([]);
  });

  test('[cli.9] that only copies have is told at the end, and states without a conversation are told whole', () => {
    const telling = new Telling(viewOf({ kind: 'fleet' }));
    const [lonely] = matches('$.agents.ann.histories.chat[1].content');
    expect(telling.tell(lonely === undefined ? [] : [lonely])).toEqual([]);
    expect(telling.rest()).toEqual([lonely]);
    const plain = matches('$.a', '$.b');
    expect(new Telling(viewOf({ a: 1, b: 1 })).tell(plain)).toEqual(plain);
  });
});

describe('redaction', () => {
  const redact = (value: unknown, rules: Partial<ConstructorParameters<typeof Redaction>[0]>) => {
    const redaction = new Redaction({ texts: [], patterns: [], paths: [], ...rules });
    return [redaction.ofState(value), redaction.places];
  };

  test('[cli.16] texts are taken out of texts, keys, maps and sets; what is untouched stays the same object', () => {
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

  test('[cli.16] and out of everything else that holds text, whole where it is one small text', () => {
    const error = Object.assign(new TypeError('no s3cret', { cause: new Error('s3cret') }), { code: 's3cret' });
    const state = {
      error,
      url: new URL('https://example.com/?q=s3+cret#x'),
      path: new URL('https://example.com/s3cret'),
      pattern: /s3\/?cret/u,
      escaped: /s3 cret/,
      bytes: Buffer.from('a s3cret'),
      secret: new SecretRef('s3cret'),
      bare: Object.assign(Object.create(null), { s3cret: 's3cret' }),
    };
    const [found] = redact(state, { texts: ['s3cret', 's3 cret'] }) as [typeof state];
    const { error: kept, bare, pattern, ...rest } = found;
    expect(Object.values(rest)).toEqual(Array(5).fill('[redacted]'));
    expect(pattern).toBe(state.pattern);
    expect(kept).toBeInstanceOf(TypeError);
    expect(kept).toMatchObject({ message: 'no [redacted]', cause: { message: '[redacted]' }, code: '[redacted]' });
    expect(kept.stack).not.toContain('s3cret');
    expect([Object.getPrototypeOf(bare), { ...bare }]).toEqual([null, { '[redacted]': '[redacted]' }]);
    const clean = { error, url: state.url, bytes: state.bytes };
    expect(redact(clean, { texts: ['elsewhere'] })).toEqual([clean, 0]);
  });

  test('[cli.16] a text goes as JSON writes it inside a text, too, and whole where another one is part of it', () => {
    const texts = ['pass', 'pass"word\\', 'clé\nprivée'];
    const called = {
      written: JSON.stringify({ key: 'pass"word\\', pem: 'clé\nprivée' }),
      asAscii: '{"pem":"cl\\u00e9\\npriv\\u00e9e"}',
    };
    expect(redact({ ...called, said: 'pass"word\\' }, { texts })).toEqual([
      { written: '{"key":"[redacted]","pem":"[redacted]"}', asAscii: '{"pem":"[redacted]"}', said: '[redacted]' },
      3,
    ]);
  });

  test('[cli.16] what becomes equal to its neighbour, or to what was taken out before, goes too, and no entry is lost', () => {
    const state = {
      object: { '[redacted]': 1, 'a@x.org': 1, 'b@x.org': 2 },
      set: new Set(['[redacted]', 'a@x.org', 'b@x.org']),
      map: new Map([
        ['[redacted]', 1],
        ['a@x.org', 1],
        ['b@x.org', 2],
      ]),
    };
    const keys = ['[redacted]', '[redacted] 2', '[redacted] 3'];
    const [found, places] = redact(state, { texts: ['a@x.org', 'b@x.org'] });
    expect(found).toEqual({
      object: { '[redacted]': 1, '[redacted] 2': 1, '[redacted] 3': 2 },
      set: new Set(keys),
      map: new Map(keys.map((key, at) => [key, at === 2 ? 2 : 1])),
    });
    expect(places).toBe(6);
    expect(redact(found, { texts: ['a@x.org'] })).toEqual([found, 0]);
  });

  test('[cli.16] numbers, and addresses with bytes that are no text', () => {
    const pattern = new LinearPattern({ source: '\\d{16}' }, '--pattern');
    const state = { card: 4111111111111111, big: 5500000000000004n, n: 1, none: Number.NaN };
    expect(redact(state, { patterns: [pattern] })).toEqual([
      { card: '[redacted]', big: '[redacted]', n: 1, none: Number.NaN },
      2,
    ]);
    expect(redact(new URL('http://h/%FF/a%40x.org'), { texts: ['a@x.org'] })).toEqual(['[redacted]', 1]);
  });

  test('[cli.16] patterns and paths', () => {
    expect(
      redact({ card: 'No 1234 5678.' }, { patterns: [new LinearPattern({ source: '\\d{4} \\d{4}' }, '--pattern')] }),
    ).toEqual([{ card: 'No [redacted].' }, 1]);
    expect(redact({ a: [{ b: { c: 1 } }], x: 2 }, { paths: [['a', 0, 'b']] })).toEqual([
      { a: [{ b: '[redacted]' }], x: 2 },
      1,
    ]);
  });
});
