import { createRequire } from 'node:module';
import { Document } from '@langchain/core/documents';
import {
  AIMessage,
  AIMessageChunk,
  type BaseMessage,
  ChatMessage,
  ChatMessageChunk,
  FunctionMessage,
  FunctionMessageChunk,
  HumanMessage,
  HumanMessageChunk,
  RemoveMessage,
  SystemMessage,
  SystemMessageChunk,
  ToolMessage,
  ToolMessageChunk,
} from '@langchain/core/messages';
import { Command, Overwrite, Send } from '@langchain/langgraph';
import { DeltaSnapshot } from '@langchain/langgraph-checkpoint';
import { describe, expect, test } from 'vitest';
import { checkpointOf, metadataOf, putValues, ROOT, valueGraph } from '../../../../test/support/langgraph.ts';
import { describeOn } from '../../../../test/support/later.ts';
import { STORAGES } from '../../../../test/support/storages.ts';
import { InMemoryCheckpointStorage } from '../../../storage/memory/memory-storage.ts';
import { langGraphClasses } from '../index.ts';
import { SavestateSaver } from './savestate-saver.ts';

/** Another copy of the packages: what a program that uses `require` gets. */
const require = createRequire(import.meta.url);
const otherMessages = require('@langchain/core/messages') as typeof import('@langchain/core/messages');
const otherGraph = require('@langchain/langgraph') as typeof import('@langchain/langgraph');

/** A value after it was saved in a channel and read by another saver, which remembers nothing. */
async function roundTrip(value: unknown): Promise<unknown> {
  const storage = new InMemoryCheckpointStorage();
  await putValues(new SavestateSaver(storage), ROOT, { value });
  const tuple = await new SavestateSaver(storage).getTuple(ROOT);
  return tuple?.checkpoint.channel_values.value;
}

const VALUES: [name: string, value: unknown][] = [
  ['bigint', 10n ** 30n],
  ['date', new Date('2026-11-16T01:02:03.004Z')],
  ['url', new URL('https://example.com/a?b=c')],
  ['NaN, infinities and -0', [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, -0, 0]],
  ['undefined', { a: undefined, b: [undefined, null] }],
  [
    'map and set',
    new Map<unknown, unknown>([
      ['a', new Set([1n])],
      [{ k: 1 }, new Map()],
    ]),
  ],
  ['bytes', new Uint8Array([0, 1, 254, 255])],
  ['buffer', Buffer.from([1, 2, 3])],
  ['wide bytes', [new Float64Array([1.5, Number.NaN]), new BigInt64Array([-1n]), new Uint16Array([7])]],
  ['error', Object.assign(new TypeError('odd', { cause: new RangeError('below') }), { code: 'E_ODD' })],
  ['regular expression', /a(b)?/giu],
  ['odd keys', JSON.parse('{"__proto__": 1, "prototype": 2, "$": 0, "": "empty", "10": 1, "2": 2}')],
  [
    'LangChain look-alike',
    { lc: 1, type: 'constructor', id: ['langchain_core', 'messages', 'HumanMessage'], kwargs: { content: 'x' } },
  ],
  ['undefined look-alike', { lc: 2, type: 'undefined' }],
  ['map look-alike', { lc: 2, type: 'constructor', id: ['Map'], args: [[['a', 1]]], method: null }],
  ['snapshot look-alike', { lc: 2, type: 'delta_snapshot', value: 1 }],
  ['our look-alike', { $: ['class', 'langchain.HumanMessage', { content: 'x' }] }],
  ['send look-alike', { lg_name: 'Send', node: 'a', args: {} }],
  ['large text', 'x'.repeat(200_000)],
];

describe('[langgraph.5] what comes out is what went in', () => {
  test.each(VALUES)('%s in a channel', async (_, value) => {
    const found = await roundTrip(value);
    expect(found).toStrictEqual(value);
    expect(Object.prototype).not.toHaveProperty('polluted');
  });

  test.each(VALUES)('%s in a pending write, alone and in an array', async (_, value) => {
    const storage = new InMemoryCheckpointStorage();
    const saver = new SavestateSaver(storage);
    const config = await putValues(saver, ROOT, {});
    await saver.putWrites(
      config,
      [
        ['a', value],
        ['b', [value, value]],
        ['c', []],
      ],
      'task',
    );
    const tuple = await new SavestateSaver(storage).getTuple(config);
    expect(tuple?.pendingWrites).toStrictEqual([
      ['task', 'a', value],
      ['task', 'b', [value, value]],
      ['task', 'c', []],
    ]);
  });

  test.each(VALUES)('%s through a graph that goes on from it', async (_, value) => {
    const storage = new InMemoryCheckpointStorage();
    await valueGraph(new SavestateSaver(storage), value).invoke({}, ROOT);
    const graph = valueGraph(new SavestateSaver(storage), 'other');
    const state = await graph.getState(ROOT);
    expect(state.values).toStrictEqual({ value, note: 'after' });
    await graph.updateState(ROOT, { note: 'again' }, 'after');
    expect((await valueGraph(new SavestateSaver(storage), 0).getState(ROOT)).values).toStrictEqual({
      value,
      note: 'again',
    });
  });

  test.each(STORAGES)('on %s: all of them, in channels, writes and metadata', async (_, create) => {
    const { storage } = create();
    const saver = new SavestateSaver(storage);
    const metadata = { ...metadataOf(), ...Object.fromEntries(VALUES.slice(0, -1)) };
    const values = Object.fromEntries(VALUES);
    const checkpoint = checkpointOf(values);
    const config = await saver.put(ROOT, checkpoint, metadata, checkpoint.channel_versions);
    await saver.putWrites(config, VALUES, 'task');
    const tuple = await new SavestateSaver(storage).getTuple(config);
    expect(tuple?.checkpoint.channel_values).toStrictEqual(values);
    expect(tuple?.pendingWrites).toStrictEqual(VALUES.map(([name, value]) => ['task', name, value]));
    expect(tuple?.metadata).toStrictEqual(metadata);
    await storage.close();
  });

  test('metadata too', async () => {
    const storage = new InMemoryCheckpointStorage();
    const metadata = { ...metadataOf(), user: 'ann', at: new Date(0), big: 1n, tags: ['a'], '': null };
    await new SavestateSaver(storage).put(ROOT, checkpointOf({}), metadata, {});
    expect((await new SavestateSaver(storage).getTuple(ROOT))?.metadata).toStrictEqual(metadata);
  });
});

class Money {
  constructor(readonly cents: number) {}
}
class MyMessage extends HumanMessage {
  custom = 'mine';
}
class MySend extends Send {
  custom = 'mine';
}

describeOn(STORAGES)(
  '[value.5] on %s what cannot be saved is refused, with the path, and leaves nothing',
  (_, create) => {
    const cycle: { self?: unknown } = {};
    cycle.self = cycle;
    test.each([
      ['a class', { list: [1, new Money(5)] }, '$.channel_values.value.list[1]'],
      ['a subclass of a message', [new MyMessage('x')], '$.channel_values.value[0]'],
      ["a subclass of LangGraph's", [new MySend('x', 1)], '$.channel_values.value[0]'],
      ['a function', { run: () => 1 }, '$.channel_values.value.run'],
      ['a cycle', cycle, '$.channel_values.value.self'],
      [
        'a class inside a message',
        [new AIMessage({ content: '', additional_kwargs: { raw: new Money(1) } })],
        '$.channel_values.value[0].additional_kwargs.raw',
      ],
    ])('%s', async (__, value, path) => {
      const { storage } = create();
      const saver = new SavestateSaver(storage);
      const first = await putValues(saver, ROOT, { value: 1 });
      await expect(putValues(saver, first, { value })).rejects.toMatchObject({
        code: 'INVALID_INPUT',
        details: { path },
      });
      await expect(
        saver.putWrites(
          first,
          [
            ['note', 1],
            ['value', value],
          ],
          'task',
        ),
      ).rejects.toMatchObject({
        code: 'INVALID_INPUT',
        details: { channel: 'value' },
      });
      expect((await storage.stats()).checkpoints).toBe(1);
      const next = await putValues(saver, first, { value: 2 });
      expect((await saver.getTuple(next))?.checkpoint.channel_values).toEqual({ value: 2 });
    });

    test('a run whose state cannot be saved fails, and the thread is as it was', async () => {
      const saver = new SavestateSaver(create().storage);
      await valueGraph(saver, 1).invoke({}, ROOT);
      await expect(valueGraph(saver, new Money(1)).invoke({}, ROOT)).rejects.toMatchObject({ code: 'INVALID_INPUT' });
      expect((await valueGraph(saver, 1).getState(ROOT)).values).toEqual({ value: 1, note: 'after' });
    });

    test('classes of your own are saved with a codec', async () => {
      const { storage } = create();
      const money = {
        tag: 'money',
        class: Money,
        encode: (value: object) => (value as Money).cents,
        decode: (data: unknown) => new Money(Number(data)),
      };
      const open = () => new SavestateSaver({ storage, classes: [money] });
      await putValues(open(), ROOT, { value: [new Money(7)] });
      expect((await open().getTuple(ROOT))?.checkpoint.channel_values.value).toStrictEqual([new Money(7)]);
      await expect(new SavestateSaver(storage).getTuple(ROOT)).rejects.toMatchObject({ code: 'UNSUPPORTED' });
    });

    test('metadata must leave our key alone', async () => {
      const saver = new SavestateSaver(create().storage);
      const metadata = { ...metadataOf(), langgraph: 1 };
      await expect(saver.put(ROOT, checkpointOf({}), metadata, {})).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    });
  },
);

const tool_calls = [{ name: 'search', args: { query: 'x' }, id: 'call', type: 'tool_call' as const }];
// Fields of models that the types of plain messages do not know.
const usage = { usage_metadata: { input_tokens: 1, output_tokens: 2, total_tokens: 3 } } as object;
const blocks = [
  { type: 'text', text: 'see' },
  { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } },
];

const MESSAGES: [name: string, message: BaseMessage][] = [
  ['HumanMessage', new HumanMessage('hello')],
  ['HumanMessage of blocks', new HumanMessage({ content: blocks, id: 'h', name: 'ann' })],
  ['HumanMessage without content', new HumanMessage('')],
  ['HumanMessage with more arguments', new HumanMessage({ content: 'x', custom: { a: 1n } } as never)],
  ['HumanMessageChunk', new HumanMessageChunk({ content: 'par' })],
  [
    'AIMessage',
    new AIMessage({
      content: 'hi',
      id: 'a',
      tool_calls,
      ...usage,
      response_metadata: { model: 'm', n: Number.NaN },
    }),
  ],
  ['AIMessage of the first output version', new AIMessage({ contentBlocks: [{ type: 'text', text: 'v1' }] } as never)],
  [
    'AIMessage with raw tool calls',
    Object.assign(new AIMessage(''), {
      additional_kwargs: { tool_calls: [{ id: '1', type: 'function', function: { name: 'f', arguments: '{' } }] },
    }),
  ],
  [
    'AIMessageChunk',
    new AIMessageChunk({ content: 'ch', tool_call_chunks: [{ name: 's', args: '{"a":', id: '1', index: 0 }] }),
  ],
  [
    'AIMessageChunk of two',
    new AIMessageChunk({ content: 'a' }).concat(new AIMessageChunk({ content: 'b', ...usage })),
  ],
  [
    'ToolMessage',
    new ToolMessage({
      content: 'r',
      tool_call_id: 'call',
      name: 'search',
      status: 'error',
      artifact: new Map([[1, 2n]]),
    }),
  ],
  ['ToolMessageChunk', new ToolMessageChunk({ content: 'r', tool_call_id: 'call' })],
  ['SystemMessage', new SystemMessage('be kind')],
  ['SystemMessageChunk', new SystemMessageChunk('be')],
  ['ChatMessage', new ChatMessage('x', 'critic')],
  ['ChatMessageChunk', new ChatMessageChunk({ content: 'x', role: 'critic' })],
  ['FunctionMessage', new FunctionMessage({ content: 'x', name: 'f' })],
  ['FunctionMessageChunk', new FunctionMessageChunk({ content: 'x', name: 'f' })],
  ['RemoveMessage', new RemoveMessage({ id: 'gone' })],
];

function toJson(message: BaseMessage): { id: string[]; kwargs: { [key: string]: unknown } } {
  return JSON.parse(JSON.stringify(message, (_, value) => (typeof value === 'bigint' ? `${value}n` : value)));
}

describe('[langgraph.5] messages', () => {
  test.each(MESSAGES)('%s comes back as it was', async (_, message) => {
    const [found] = (await roundTrip([message])) as [BaseMessage];
    expect(Object.getPrototypeOf(found)).toBe(Object.getPrototypeOf(message));
    expect(Object.keys(found)).toEqual(Object.keys(message));
    expect({ ...found, lc_kwargs: 0 }).toStrictEqual({ ...message, lc_kwargs: 0 });
    expect(found.text).toBe(message.text);
    expect(found.getType()).toBe(message.getType());
    expect(String(found)).toBe(String(message));
  });

  test.each(MESSAGES)('%s is the same JSON', async (_, message) => {
    const [found] = (await roundTrip([message])) as [BaseMessage];
    const { content_blocks: content, ...kwargs } = toJson(message).kwargs;
    expect(toJson(found).kwargs).toMatchObject(content === undefined ? kwargs : { ...kwargs, content });
    expect(toJson(found).id).toEqual(toJson(message).id);
  });

  test.each(STORAGES)('on %s have their fields in the order they were given in, again and again', async (_, create) => {
    const { storage } = create();
    const args = { to: 'Porto', at: 9 };
    const messages = [
      new HumanMessage({ content: 'hi', name: 'ann', id: 'h', additional_kwargs: { z: 1, a: 2 } }),
      new AIMessage({ response_metadata: { z: 1, a: 2 }, content: '', tool_calls: [{ id: '1', name: 'go', args }] }),
      new ToolMessage({ tool_call_id: '1', content: 'x', status: 'success', artifact: args, name: 'go' }),
      new ChatMessage('x', 'critic'),
      new AIMessageChunk({ tool_call_chunks: [{ name: 's', args: '{}', id: '1', index: 0 }], content: 'a' }),
    ];
    const config = await putValues(new SavestateSaver(storage), ROOT, { messages });
    const found = (await new SavestateSaver(storage).getTuple(config))?.checkpoint.channel_values.messages;
    expect(JSON.stringify(found)).toBe(JSON.stringify(messages));
    const { chunks } = await storage.stats();
    await new SavestateSaver(storage).put(ROOT, checkpointOf({ messages: found }), metadataOf(), { messages: 1 });
    expect((await storage.stats()).chunks).toBe(chunks);
    await storage.close();
  });

  test.each(STORAGES)('on %s: all of them', async (_, create) => {
    const { storage } = create();
    const messages = MESSAGES.map(([, message]) => message);
    await putValues(new SavestateSaver(storage), ROOT, { messages });
    const found = (await new SavestateSaver(storage).getTuple(ROOT))?.checkpoint.channel_values.messages;
    const fields = (list: unknown) => (list as BaseMessage[]).map((message) => ({ ...message, lc_kwargs: 0 }));
    expect(fields(found)).toStrictEqual(fields(messages));
    await storage.close();
  });

  test('two messages share nothing', async () => {
    const [a, b] = (await roundTrip([new AIMessage('a'), new AIMessage('b')])) as AIMessage[];
    a?.tool_calls?.push({ name: 'x', args: {} });
    a?.lc_namespace.push('changed');
    expect(b?.tool_calls).toEqual([]);
    expect(b?.lc_namespace).toEqual(['langchain_core', 'messages']);
  });

  test('messages of another copy of the package are taken for what they are', async () => {
    const foreign = new otherMessages.AIMessage({ content: 'x', tool_calls });
    expect(Object.getPrototypeOf(foreign)).not.toBe(AIMessage.prototype);
    const removed = new otherMessages.RemoveMessage({ id: 'r' });
    const found = (await roundTrip([foreign, removed])) as BaseMessage[];
    expect(found.map((message) => Object.getPrototypeOf(message))).toEqual([
      AIMessage.prototype,
      RemoveMessage.prototype,
    ]);
    expect(JSON.parse(JSON.stringify(found))).toEqual(JSON.parse(JSON.stringify([foreign, removed])));
    class Foreign extends otherMessages.HumanMessage {}
    await expect(roundTrip([new Foreign('x')])).rejects.toMatchObject({ code: 'INVALID_INPUT' });
  });

  test('documents', async () => {
    const document = new Document({ pageContent: 'text', metadata: { page: 1n }, id: 'd' });
    expect(await roundTrip([document])).toStrictEqual([document]);
  });
});

describe("[langgraph.5] LangGraph's own values", () => {
  test.each([
    ['Send', new Send('node', { a: [1n], lookalike: { node: 'x', args: 1 } })],
    ['Send with a timeout', new Send('node', {}, { timeout: 500 })],
    ['Command', new Command({ update: { a: 1 }, goto: ['a', new Send('b', 2)], resume: 'yes' })],
    ['Overwrite', new Overwrite([new HumanMessage('x')])],
    ['DeltaSnapshot', new DeltaSnapshot([1, new HumanMessage('x')])],
    ['interrupts', [{ id: 'i', value: { question: 'ok?' } }]],
  ])('%s', async (_, value) => {
    const found = await roundTrip([value]);
    expect(found).toEqual([value]);
    expect(Object.getPrototypeOf((found as object[])[0])).toBe(Object.getPrototypeOf(value));
  });

  test('of another copy of the package', async () => {
    const [send, command] = (await roundTrip([
      new otherGraph.Send('node', 1),
      new otherGraph.Command({ goto: 'x' }),
    ])) as object[];
    expect(send).toBeInstanceOf(Send);
    expect(command).toBeInstanceOf(Command);
  });

  test('have each a tag of their own', () => {
    const tags = langGraphClasses.map(({ tag }) => tag);
    expect(new Set(tags).size).toBe(tags.length);
  });
});
