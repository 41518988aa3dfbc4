import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { storeRuns } from '../../src/adapter/interchange/imported-session.ts';
import { readOtlp } from '../../src/adapter/interchange/otlp.ts';
import { CheckpointManager } from '../../src/manager/checkpoint-manager.ts';
import { InMemoryCheckpointStorage } from '../../src/storage/memory/memory-storage.ts';
import { temporaryFolder } from '../support/storages.ts';
import { json } from './support/cli.ts';

type Fields = { readonly [name: string]: unknown };

const TRACE = '5b8efff798038103d269b633813fc60c';
const START = 1_760_000_000_000_000_000n;

const value = (given: unknown): object => {
  if (typeof given === 'number') return Number.isInteger(given) ? { intValue: String(given) } : { doubleValue: given };
  if (typeof given === 'boolean') return { boolValue: given };
  if (Array.isArray(given)) return { arrayValue: { values: given.map(value) } };
  return { stringValue: String(given) };
};
const attributes = (given: Fields) => Object.entries(given).map(([key, each]) => ({ key, value: value(each) }));
const id = (n: number) => n.toString(16).padStart(16, '0');
/** A span with its number for its id, at so many nanoseconds. */
const span = (n: number, given: Fields, { atNs = n * 1_000, parent, events = [], ...more }: SpanOptions = {}) => ({
  traceId: TRACE,
  spanId: id(n),
  ...(parent !== undefined && { parentSpanId: id(parent) }),
  name: `span ${n}`,
  startTimeUnixNano: String(START + BigInt(atNs)),
  endTimeUnixNano: String(START + BigInt(atNs + 500)),
  attributes: attributes(given),
  events: events.map(([name, about]) => ({ name, timeUnixNano: '1', attributes: attributes(about) })),
  ...more,
});
type SpanOptions = {
  readonly atNs?: number;
  readonly parent?: number;
  readonly events?: readonly [name: string, about: Fields][];
  readonly [field: string]: unknown;
};
const resource = (service: string, ...spans: object[]) => ({
  resource: { attributes: attributes({ 'service.name': service }) },
  scopeSpans: [{ scope: { name: 'x' }, spans }],
});
const file = (...spans: object[]) => JSON.stringify({ resourceSpans: [resource('desk', ...spans)] });

/** The messages of each session that a file makes, as role and content. */
async function read(document: string) {
  const { runs } = readOtlp(document);
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  const found: { [session: string]: unknown[] } = {};
  for (const { sessionId } of await storeRuns(manager, runs)) {
    const { messages } = await manager.load<{ messages: { role: string; content: unknown }[] }>({ sessionId, at: '@' });
    found[sessionId] = messages.map(({ role, content }) => [role, content]);
  }
  return found;
}

const chat = { 'gen_ai.operation.name': 'chat' };
const tool = { 'gen_ai.operation.name': 'execute_tool', 'gen_ai.tool.name': 'find' };
const call = (callId: string, input: unknown = {}) => ({
  type: 'tool-call',
  toolCallId: callId,
  toolName: 'find',
  input,
});
const result = (callId: string, output: unknown) => ({
  type: 'tool-result',
  toolCallId: callId,
  toolName: expect.stringMatching(/find|tool/),
  output: expect.objectContaining({ value: output }),
});
/** What every convention below tells: a question, a call, its result, an answer. */
const TALK = [
  ['user', 'Where is it?'],
  ['assistant', [call('c1', { id: 1 })]],
  ['tool', [result('c1', 'It left.')]],
  ['assistant', 'Yesterday.'],
];
const asText = (found: unknown[] | undefined) =>
  found?.map((each) => {
    const [role, content] = each as [string, unknown];
    const [only, ...rest] = Array.isArray(content) ? content : [];
    return [role, rest.length === 0 && only?.type === 'text' ? only.text : content];
  });

test('names of protobuf, ids in base64 and times as numbers are the same trace', async () => {
  const spans = [span(1, { ...chat, 'gen_ai.completion': 'hello', n: 1.5, isFast: true, list: ['a', 'b'] })];
  const plain = file(...spans);
  const base64 = (hex: unknown) => Buffer.from(String(hex), 'hex').toString('base64');
  const other = {
    resource_spans: [
      {
        resource: { attributes: [{ key: 'service.name', value: { string_value: 'desk' } }] },
        instrumentation_library_spans: [
          {
            spans: spans.map(({ traceId, spanId, startTimeUnixNano, attributes: given }) => ({
              trace_id: base64(traceId),
              span_id: base64(spanId),
              name: 'x',
              start_time_unix_nano: Number(startTimeUnixNano),
              attributes: given.map(({ key, value: held }) => ({
                key,
                value: Object.fromEntries(Object.entries(held).map(([kind, each]) => [kind.replace(/V/, '_v'), each])),
              })),
            })),
          },
        ],
      },
    ],
  };
  const expected = { [`otlp/${TRACE}`]: [['assistant', 'hello']] };
  expect(await read(plain)).toEqual(expected);
  expect(await read(JSON.stringify(other))).toEqual(expected);
  expect(await read(`\uFEFF${plain.replace(TRACE, TRACE.toUpperCase())}`)).toEqual(expected);
  expect(await read(JSON.stringify([JSON.parse(plain)]))).toEqual(expected);
  const batches = JSON.parse(plain).resourceSpans;
  expect(await read(JSON.stringify({ batches }))).toEqual(expected);
  expect(await read(JSON.stringify({ trace: { resourceSpans: batches } }, null, 2))).toEqual(expected);
});

test('spans of one millisecond come in the order of their nanoseconds, those sent twice once', async () => {
  const said = (n: number) => span(n, { ...chat, 'gen_ai.completion': `answer ${n}` });
  const found = await read(`${file(said(3), said(1))}\r\n${file(said(2), said(1))}\r\n`);
  expect(found).toEqual({
    [`otlp/${TRACE}`]: [1, 2, 3].map((n) => ['assistant', `answer ${n}`]),
  });
});

test('what a span does not say, the spans it is part of say; a parent may be missing, or in a circle', async () => {
  const agent = {
    'gen_ai.operation.name': 'invoke_agent',
    'gen_ai.conversation.id': 'talk',
    'gen_ai.agent.name': 'ann',
  };
  const document = JSON.stringify({
    resourceSpans: [
      resource('tools', span(4, { ...tool, 'gen_ai.tool.call.result': 'x' }, { parent: 2 })),
      resource(
        'desk',
        span(2, { ...chat, 'gen_ai.completion': 'a' }, { parent: 1, atNs: 1 }),
        span(1, agent, { parent: 99, atNs: 5 }),
        span(7, { ...chat, 'gen_ai.completion': 'b' }, { parent: 8 }),
        span(8, {}, { parent: 7 }),
      ),
    ],
  });
  const { runs, ...counts } = readOtlp(document);
  expect(counts).toEqual({ spans: 5, otherSpans: 2 });
  expect(runs.map(({ names, agent: by, steps }) => [names, by, steps.length])).toEqual([
    [['talk'], 'ann', 2],
    [[TRACE], 'desk', 1],
  ]);
});

test('a model call within a model call is told once', async () => {
  const outer = { 'openinference.span.kind': 'LLM', 'output.value': 'hello' };
  const { runs, otherSpans } = readOtlp(
    file(span(1, outer), span(2, { ...chat, 'gen_ai.completion': 'hello' }, { parent: 1 })),
  );
  expect([runs[0]?.steps.length, otherSpans]).toEqual([1, 1]);
});

const OPENAI = {
  asked: { role: 'user', content: 'Where is it?' },
  called: {
    role: 'assistant',
    content: null,
    tool_calls: [{ id: 'c1', type: 'function', function: { name: 'find', arguments: '{"id":1}' } }],
  },
  found: { role: 'tool', tool_call_id: 'c1', content: 'It left.' },
  said: { role: 'assistant', content: 'Yesterday.' },
};
const { asked, called, found, said } = OPENAI;
const toolSpan = span(2, { ...tool, 'gen_ai.tool.call.id': 'c1', 'gen_ai.tool.call.result': 'It left.' });
const nameless = span(2, { 'openinference.span.kind': 'TOOL', 'tool.name': 'find', 'output.value': 'It left.' });

/** The same talk as five conventions tell it: two calls of a model, one of a tool between them. */
const CONVENTIONS: { readonly [name: string]: object[] } = {
  'attributes of today': [
    span(1, {
      ...chat,
      'gen_ai.input.messages': JSON.stringify([{ role: 'user', parts: [{ type: 'text', content: 'Where is it?' }] }]),
      'gen_ai.output.messages': JSON.stringify([
        { role: 'assistant', parts: [{ type: 'tool_call', id: 'c1', name: 'find', arguments: { id: 1 } }] },
      ]),
    }),
    toolSpan,
    span(3, {
      ...chat,
      'gen_ai.input.messages': JSON.stringify([
        { role: 'user', parts: [{ type: 'text', content: 'Where is it?' }] },
        { role: 'assistant', parts: [{ type: 'tool_call', id: 'c1', name: 'find', arguments: { id: 1 } }] },
        { role: 'tool', parts: [{ type: 'tool_call_response', id: 'c1', response: 'It left.' }] },
      ]),
      'gen_ai.output.messages': JSON.stringify([
        { role: 'assistant', parts: [{ type: 'text', content: 'Yesterday.' }] },
      ]),
    }),
  ],
  'one event with all of it': [
    span(1, chat, {
      events: [
        [
          'gen_ai.client.inference.operation.details',
          { 'gen_ai.input.messages': JSON.stringify([asked]), 'gen_ai.output.messages': JSON.stringify([called]) },
        ],
      ],
    }),
    toolSpan,
    span(3, chat, {
      events: [
        [
          'gen_ai.client.inference.operation.details',
          {
            'gen_ai.input.messages': JSON.stringify([asked, called, found]),
            'gen_ai.output.messages': JSON.stringify([said]),
          },
        ],
      ],
    }),
  ],
  'an event for each message': [
    span(1, chat, {
      events: [
        ['gen_ai.user.message', { 'gen_ai.event.content': JSON.stringify(asked) }],
        [
          'gen_ai.choice',
          { 'gen_ai.event.content': JSON.stringify({ index: 0, finish_reason: 'tool_calls', message: called }) },
        ],
      ],
    }),
    toolSpan,
    span(3, chat, {
      events: [
        ['gen_ai.user.message', { content: 'Where is it?' }],
        ['gen_ai.assistant.message', { 'gen_ai.event.content': JSON.stringify(called) }],
        ['gen_ai.tool.message', { id: 'c1', content: 'It left.' }],
        ['gen_ai.choice', { index: 0, message: 'Yesterday.', finish_reason: 'stop' }],
      ],
    }),
  ],
  'events of the first version': [
    span(1, chat, {
      events: [
        ['gen_ai.content.prompt', { 'gen_ai.prompt': JSON.stringify([asked]) }],
        ['gen_ai.content.completion', { 'gen_ai.completion': JSON.stringify([called]) }],
      ],
    }),
    toolSpan,
    span(3, chat, {
      events: [
        ['gen_ai.content.prompt', { 'gen_ai.prompt': JSON.stringify([asked, called, found]) }],
        ['gen_ai.content.completion', { 'gen_ai.completion': JSON.stringify([said]) }],
      ],
    }),
  ],
  'numbered attributes of OpenLLMetry': [
    span(1, {
      'llm.request.type': 'chat',
      'gen_ai.prompt.0.role': 'user',
      'gen_ai.prompt.0.content': 'Where is it?',
      'gen_ai.completion.0.role': 'assistant',
      'gen_ai.completion.0.finish_reason': 'tool_calls',
      'gen_ai.completion.0.tool_calls.0.id': 'c1',
      'gen_ai.completion.0.tool_calls.0.name': 'find',
      'gen_ai.completion.0.tool_calls.0.arguments': '{"id":1}',
    }),
    span(2, { 'traceloop.span.kind': 'tool', 'traceloop.entity.name': 'find', 'traceloop.entity.output': 'It left.' }),
    span(3, {
      'llm.request.type': 'chat',
      'gen_ai.prompt.0.role': 'user',
      'gen_ai.prompt.0.content': 'Where is it?',
      'gen_ai.prompt.1.role': 'assistant',
      'gen_ai.prompt.1.tool_calls.0.id': 'c1',
      'gen_ai.prompt.1.tool_calls.0.name': 'find',
      'gen_ai.prompt.1.tool_calls.0.arguments': '{"id":1}',
      'gen_ai.prompt.2.role': 'tool',
      'gen_ai.prompt.2.tool_call_id': 'c1',
      'gen_ai.prompt.2.content': 'It left.',
      'gen_ai.completion.0.role': 'assistant',
      'gen_ai.completion.0.content': 'Yesterday.',
    }),
  ],
  'numbered attributes of OpenInference': [
    span(1, {
      'openinference.span.kind': 'LLM',
      'input.value': JSON.stringify({ model: 'm', messages: [asked] }),
      'output.value': JSON.stringify({ id: 'x', choices: [{ index: 0, message: called }] }),
      'llm.input_messages.0.message.role': 'user',
      'llm.input_messages.0.message.contents.0.message_content.type': 'text',
      'llm.input_messages.0.message.contents.0.message_content.text': 'Where is it?',
      'llm.output_messages.0.message.role': 'assistant',
      'llm.output_messages.0.message.tool_calls.0.tool_call.id': 'c1',
      'llm.output_messages.0.message.tool_calls.0.tool_call.function.name': 'find',
      'llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments': '{"id":1}',
    }),
    nameless,
    span(3, {
      'openinference.span.kind': 'LLM',
      'input.value': JSON.stringify({ model: 'm', messages: [asked, called, found] }),
      'output.value': JSON.stringify({ id: 'x', choices: [{ index: 0, message: said }] }),
    }),
  ],
  'messages of Anthropic': [
    span(1, {
      ...chat,
      'gen_ai.input.messages': JSON.stringify([asked]),
      'output.value': JSON.stringify({
        role: 'assistant',
        content: [{ type: 'tool_use', id: 'c1', name: 'find', input: { id: 1 } }],
      }),
    }),
    nameless,
    span(3, {
      ...chat,
      'gen_ai.input.messages': JSON.stringify([
        asked,
        { role: 'assistant', content: [{ type: 'tool_use', id: 'c1', name: 'find', input: { id: 1 } }] },
        { role: 'tool', content: [{ type: 'tool_result', tool_use_id: 'c1', content: 'It left.' }] },
      ]),
      'gen_ai.output.messages': JSON.stringify([
        { role: 'assistant', content: [{ type: 'text', text: 'Yesterday.' }] },
      ]),
    }),
  ],
  'items of the Responses API': [
    span(1, {
      ...chat,
      'gen_ai.input.messages': JSON.stringify([
        { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'Where is it?' }] },
      ]),
      'gen_ai.output.messages': JSON.stringify([
        { type: 'function_call', call_id: 'c1', name: 'find', arguments: '{"id":1}' },
      ]),
    }),
    nameless,
    span(3, {
      ...chat,
      'gen_ai.input.messages': JSON.stringify([
        { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'Where is it?' }] },
        { type: 'function_call', call_id: 'c1', name: 'find', arguments: '{"id":1}' },
        { type: 'function_call_output', call_id: 'c1', output: 'It left.' },
      ]),
      'gen_ai.output.messages': JSON.stringify([
        { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'Yesterday.' }] },
      ]),
    }),
  ],
  'parts of Bedrock': [
    span(1, chat, {
      events: [
        ['gen_ai.user.message', { content: '[{"text":"Where is it?"}]' }],
        ['gen_ai.choice', { message: '[{"toolUse":{"toolUseId":"c1","name":"find","input":{"id":1}}}]' }],
      ],
    }),
    toolSpan,
    span(3, chat, {
      events: [
        ['gen_ai.user.message', { content: '[{"text":"Where is it?"}]' }],
        ['gen_ai.choice', { message: '[{"text":"Yesterday."}]' }],
      ],
    }),
  ],
};

test.each(Object.entries(CONVENTIONS))('a talk is read: %s', async (_, spans) => {
  expect(asText((await read(file(...spans)))[`otlp/${TRACE}`])).toEqual(TALK);
});

test('nothing that was said is lost in an unknown form; roles have their names', async () => {
  const messages = [
    { role: 'developer', content: 'Be kind.' },
    { role: 'human', content: '[1, 2]' },
    { role: 'model', content: [{ type: 'image', url: 'a.png' }, 'words'] },
    null,
    42,
  ];
  const answer = { 'gen_ai.completion': '{"order":1042}' };
  expect(await read(file(span(1, { ...chat, 'gen_ai.prompt': JSON.stringify(messages), ...answer })))).toEqual({
    [`otlp/${TRACE}`]: [
      ['system', 'Be kind.'],
      ['user', '[1, 2]'],
      [
        'assistant',
        [
          { type: 'image', url: 'a.png' },
          { type: 'text', text: 'words' },
        ],
      ],
      ['user', '42'],
      ['assistant', '{"order":1042}'],
    ],
  });
  const failed = span(1, chat, {
    status: { code: 'STATUS_CODE_ERROR' },
    events: [['exception', { 'exception.message': 'no credit' }]],
  });
  expect(await read(file(failed))).toEqual({ [`otlp/${TRACE}`]: [['assistant', 'The model call failed: no credit']] });
  const odd = span(1, {
    'llm.request.type': 'chat',
    'gen_ai.prompt.0.__proto__.isAdmin': 'yes',
    'gen_ai.prompt.0.role': 'user',
  });
  await read(file(odd));
  expect(({} as { isAdmin?: string }).isAdmin).toBeUndefined();
});

test('at the command line: a file of a collector with several services becomes sessions', async () => {
  const folder = temporaryFolder();
  const lines = [
    file(span(1, { ...chat, 'session.id': 'a', 'gen_ai.completion': 'one' })),
    file(span(2, { ...chat, 'session.id': 'b', 'gen_ai.completion': 'two' }), span(3, { 'http.method': 'GET' })),
  ];
  writeFileSync(join(folder, 'traces.jsonl'), lines.join('\n'));
  expect(await json('import', ['otlp', 'traces.jsonl'], { folder })).toMatchObject({
    sessions: [{ sessionId: 'otlp/a' }, { sessionId: 'otlp/b' }],
    otherSpans: 1,
  });
});
