import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { readAtif } from '../../src/adapter/interchange/atif.ts';
import { storeRuns } from '../../src/adapter/interchange/imported-session.ts';
import { readOtlp } from '../../src/adapter/interchange/otlp.ts';
import { exportAtif } from '../../src/cli/state/atif.ts';
import { CheckpointManager } from '../../src/manager/checkpoint-manager.ts';
import { InMemoryCheckpointStorage } from '../../src/storage/memory/memory-storage.ts';
import { LATER } from '../support/later.ts';
import { STORAGES, temporaryFolder } from '../support/storages.ts';
import { json, ok, run } from './support/cli.ts';

/** Every field of ATIF 1.7, and some that no version has. */
const TRAJECTORY = {
  schema_version: 'ATIF-v1.7',
  session_id: 'run/1',
  trajectory_id: 't-1',
  agent: {
    name: 'terminus',
    version: '2.0',
    model_name: 'm-1',
    tool_definitions: [{ type: 'function', function: { name: 'bash' } }],
    extra: { a: 1 },
  },
  steps: [
    { step_id: 1, source: 'system', message: 'You fix things.', timestamp: '2026-10-05T12:00:00Z' },
    {
      step_id: 2,
      source: 'user',
      message: [
        { type: 'text', text: 'Fix this.' },
        { type: 'image', source: { media_type: 'image/png', path: 'a.png' } },
      ],
      is_copied_context: true,
    },
    {
      step_id: 3,
      timestamp: '2026-10-05T12:00:04.500Z',
      source: 'agent',
      message: 'I look.',
      reasoning_content: 'First look.',
      reasoning_effort: 0.5,
      tool_calls: [
        { tool_call_id: 'c1', function_name: 'bash', arguments: { command: 'ls' }, extra: { n: 1 } },
        { tool_call_id: 'c2', function_name: 'read', arguments: {} },
      ],
      observation: {
        results: [
          { source_call_id: 'c1', content: 'a.txt' },
          { source_call_id: 'c2', content: null, extra: { late: true } },
        ],
      },
      metrics: { prompt_tokens: 120, completion_tokens: 18, cached_tokens: 3, cost_usd: 0.01, logprobs: [-0.5] },
      llm_call_count: 1,
      future_field: { constructor: 'kept' },
    },
    { step_id: 4, source: 'system', message: 'Reset.', observation: { results: [{ content: 'clean' }] } },
    { step_id: 5, source: 'agent', message: '' },
  ],
  notes: 'A note.',
  final_metrics: { total_steps: 5 },
  continued_trajectory_ref: 'next.json',
  extra: { viewer: true },
  subagent_trajectories: [
    {
      schema_version: 'ATIF-v1.7',
      trajectory_id: 'helper',
      agent: { name: 'helper', version: '1' },
      steps: [{ step_id: 1, source: 'agent', message: 'Done.' }],
    },
  ],
};

const atif = (change: object = {}): string => JSON.stringify({ ...TRAJECTORY, ...change });
const open = () => new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
const store = (manager: CheckpointManager, document: string) => storeRuns(manager, readAtif(document));

describe.each(STORAGES.filter(([name]) => name !== 'file'))('%s', (_, create) => {
  test('a trajectory comes in step by step and goes out as it came', async () => {
    const { storage, reopen } = create();
    const manager = new CheckpointManager({ storage });
    expect(await store(manager, atif())).toEqual([
      { sessionId: 'atif/run%002f1', checkpoints: 5, messages: 7, isNew: true },
      { sessionId: 'atif/run%002f1/helper', checkpoints: 1, messages: 1, isNew: true },
    ]);
    expect((await store(manager, atif())).map(({ isNew }) => isNew)).toEqual([false, false]);
    await expect(store(manager, atif({ notes: 'Another.' }))).rejects.toMatchObject({ code: 'CONFLICT' });
    const again = new CheckpointManager({ storage: reopen?.() ?? storage });
    const head = await again.open({ sessionId: 'atif/run%002f1', at: '@' });
    expect(head).toMatchObject({ timestamp: new Date('2026-10-05T12:00:04.500Z'), agentId: 'terminus' });
    expect(await exportAtif(again, head)).toEqual(TRAJECTORY);
    expect((await again.verify()).findings).toEqual([]);
    await again.close();
  });
});

test('a session of any agent goes out as a trajectory that can be imported', async () => {
  const manager = open();
  const messages = [
    { role: 'system', content: 'Be kind.' },
    { role: 'user', content: 'Where is order 1042?' },
    {
      role: 'assistant',
      content: null,
      tool_calls: [{ id: 'c1', function: { name: 'find', arguments: '{"id":1042}' } }],
    },
    { role: 'tool', tool_call_id: 'c1', content: 'It left.' },
    { role: 'assistant', content: [{ type: 'tool_use', id: 'c2', name: 'say', input: 'hello' }] },
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'c2', content: [{ type: 'text', text: 'said' }] }] },
    { name: 'planner', role: 'assistant', content: 'It left yesterday.' },
    { role: 'tool', tool_call_id: 'unknown', content: 'at sea' },
  ];
  const id = await manager.save({ messages, big: 10n }, { sessionId: 'orders', agentId: 'clerk' });
  const trajectory = await exportAtif(manager, await manager.open(id));
  expect(trajectory).toMatchObject({
    schema_version: 'ATIF-v1.7',
    session_id: 'orders',
    agent: { name: 'clerk', version: 'unknown' },
    extra: { savestate: { session: 'orders', branch: 'main', checkpoint: id } },
    steps: [
      { step_id: 1, source: 'system', message: 'Be kind.' },
      { step_id: 2, source: 'user', message: 'Where is order 1042?' },
      {
        source: 'agent',
        tool_calls: [{ tool_call_id: 'c1', function_name: 'find', arguments: { id: 1042 } }],
        observation: { results: [{ source_call_id: 'c1', content: 'It left.' }] },
      },
      {
        tool_calls: [{ tool_call_id: 'c2', function_name: 'say', arguments: { input: 'hello' } }],
        observation: { results: [{ source_call_id: 'c2', content: [{ type: 'text', text: 'said' }] }] },
      },
      { source: 'agent', message: 'It left yesterday.', observation: { results: [{ content: 'at sea' }] } },
    ],
  });
  expect(await storeRuns(open(), readAtif(JSON.stringify(trajectory)))).toMatchObject([{ checkpoints: 5 }]);
  const none = await manager.open(await manager.save({ count: 1 }, { sessionId: 'counter' }));
  await expect(exportAtif(manager, none)).rejects.toThrow('has no messages, so it is not a trajectory');
});

type Attributes = { readonly [name: string]: unknown };

const value = (given: unknown): object => {
  if (typeof given === 'number') return { intValue: String(given) };
  if (Array.isArray(given)) return { arrayValue: { values: given.map(value) } };
  if (typeof given !== 'object' || given === null) return { stringValue: String(given) };
  return { kvlistValue: { values: Object.entries(given).map(([key, each]) => ({ key, value: value(each) })) } };
};

let spans = 0;
const span = (atMs: number, attributes: Attributes, more: object = {}) => ({
  traceId: '5b8efff798038103d269b633813fc60c',
  spanId: (++spans).toString(16).padStart(16, '0'),
  name: 'chat m-1',
  startTimeUnixNano: `${1_760_000_000_000 + atMs}000321`,
  endTimeUnixNano: `${1_760_000_000_000 + atMs}900321`,
  attributes: Object.entries(attributes).map(([key, each]) => ({ key, value: value(each) })),
  ...more,
});
const traces = (...some: object[]): string => traceOf(some);
const traceOf = (some: object[]): string =>
  JSON.stringify({ resourceSpans: [{ resource: {}, scopeSpans: [{ scope: {}, spans: some }] }] });
const text = (role: string, content: string) => ({ role, parts: [{ type: 'text', content }] });

async function messagesOf(manager: CheckpointManager, sessionId: string) {
  return (await manager.load<{ messages: { role: string; content: unknown }[] }>({ sessionId, at: '@' })).messages;
}

test('traces come in: each conversation a session, each message once, whatever every call repeats', async () => {
  const asked = text('user', 'Where is it?');
  const called = { role: 'assistant', parts: [{ type: 'tool_call', id: 'c1', name: 'find', arguments: { id: 1 } }] };
  const found = { role: 'tool', parts: [{ type: 'tool_call_response', id: 'c1', response: 'It left.' }] };
  const chat = { 'gen_ai.operation.name': 'chat', 'gen_ai.conversation.id': 'talk', 'gen_ai.request.model': 'm-1' };
  const tool = {
    'gen_ai.operation.name': 'execute_tool',
    'gen_ai.conversation.id': 'talk',
    'gen_ai.tool.name': 'find',
  };
  const lines = [
    traces(
      span(300, {
        ...chat,
        'gen_ai.input.messages': JSON.stringify([asked, called, found]),
        'gen_ai.output.messages': [text('assistant', 'It left.')],
      }),
      span(200, { ...tool, 'gen_ai.tool.call.id': 'c1', 'gen_ai.tool.call.result': '{"at":"sea"}' }),
      span(0, { 'gen_ai.operation.name': 'invoke_agent' }),
    ),
    traces(
      span(100, { ...chat, 'gen_ai.input.messages': [asked], 'gen_ai.output.messages': JSON.stringify([called]) }),
    ),
    traces(
      span(400, { ...tool, 'gen_ai.tool.call.arguments': '{"id":2}' }, { status: { code: 2, message: 'timed out' } }),
    ),
    traces(span(500, { ...chat }, { status: { code: 2 } }), span(50, { 'http.method': 'GET' })),
  ];
  const { runs, ...counts } = readOtlp(lines.join('\n'));
  expect(counts).toEqual({ spans: 7, otherSpans: 2 });
  const manager = open();
  expect(await storeRuns(manager, runs)).toMatchObject([{ sessionId: 'otlp/talk', checkpoints: 5, messages: 7 }]);
  const messages = await messagesOf(manager, 'otlp/talk');
  expect(messages.map(({ role }) => role)).toEqual([
    'user',
    'assistant',
    'tool',
    'assistant',
    'assistant',
    'tool',
    'assistant',
  ]);
  expect(messages[2]?.content).toMatchObject([{ toolCallId: 'c1', output: { value: { at: 'sea' } } }]);
  expect(messages[5]?.content).toMatchObject([{ output: { type: 'error-text', value: 'timed out' } }]);
  expect(messages[6]?.content).toBe('The model call failed: it failed');
  const [newest] = (await manager.list({ sessionId: 'otlp/talk' })).checkpoints;
  expect(newest?.timestamp.getTime()).toBe(1_760_000_000_500);
});

test('traces of OpenInference and of the AI SDK are read, too; content may be left out', async () => {
  const of = { 'openinference.span.kind': 'LLM', 'session.id': 's', 'llm.model_name': 'm' };
  const ai = { 'ai.operationId': 'ai.generateText.doGenerate', 'session.id': 'a' };
  const { runs } = readOtlp(
    traces(
      span(0, { ...of, 'input.value': '{"messages":[{"role":"user","content":"hi"}]}', 'output.value': 'hello' }),
      span(1, {
        'openinference.span.kind': 'TOOL',
        'session.id': 's',
        'tool.name': 'find',
        'input.value': '[1]',
        'output.value': 'x',
      }),
      span(2, {
        ...ai,
        'ai.prompt.messages': '[{"role":"user","content":[{"type":"text","text":"hi"}]}]',
        'ai.response.text': 'hello',
        'ai.response.toolCalls': '[{"type":"tool-call","toolCallId":"c","toolName":"find","input":"{\\"id\\":1}"}]',
      }),
      span(3, {
        'ai.operationId': 'ai.toolCall',
        'session.id': 'a',
        'ai.toolCall.id': 'c',
        'ai.toolCall.name': 'find',
        'ai.toolCall.result': '"gone"',
      }),
      span(4, { 'gen_ai.operation.name': 'chat' }),
    ),
  );
  const manager = open();
  await storeRuns(manager, runs);
  const contents = async (id: string) => (await messagesOf(manager, id)).map(({ content }) => content);
  expect(await contents('otlp/s')).toEqual([
    'hi',
    'hello',
    [{ type: 'tool-call', toolCallId: 'span-1', toolName: 'find', input: [1] }],
    [{ type: 'tool-result', toolCallId: 'span-1', toolName: 'find', output: { type: 'text', value: 'x' } }],
  ]);
  expect(await contents('otlp/a')).toMatchObject([
    [{ text: 'hi' }],
    [{ text: 'hello' }, { toolCallId: 'c', input: { id: 1 } }],
    [{ toolCallId: 'c', output: { value: '"gone"' } }],
  ]);
  expect(await contents('otlp/5b8efff798038103d269b633813fc60c')).toEqual(['']);
});

test('at the command line: traces of a loop come in, drift finds it, and it goes out as a trajectory', async () => {
  const folder = temporaryFolder();
  const tool = {
    'gen_ai.operation.name': 'execute_tool',
    'gen_ai.conversation.id': 'loop',
    'gen_ai.tool.name': 'search',
  };
  const same = { 'gen_ai.tool.call.arguments': '{"query":"refund"}', 'gen_ai.tool.call.result': 'nothing found' };
  writeFileSync(
    join(folder, 'traces.json'),
    traces(...Array.from({ length: 12 }, (_, at) => span(at * 1000, { ...tool, ...same }))),
  );
  const imported = await json('import', ['otlp', 'traces.json'], { folder });
  expect(imported).toEqual({
    sessions: [{ sessionId: 'otlp/loop', checkpoints: 12, messages: 24, isNew: true }],
    spans: 12,
    otherSpans: 0,
  });
  expect(await ok(['import', 'otlp', 'traces.json'], { folder })).toContain('"otlp/loop": there already, left alone.');
  expect(await json('drift', ['-s', 'otlp/loop'], { folder })).toMatchObject({ status: 'drifting' });
  await ok(['export', '-s', 'otlp/loop', '--format', 'atif', '-o', 'out.json'], { folder });
  const out = JSON.parse(readFileSync(join(folder, 'out.json'), 'utf8'));
  expect(out.steps).toHaveLength(12);
  expect(await json('import', ['atif', 'out.json'], { folder })).toMatchObject({ sessions: [{ checkpoints: 12 }] });
  expect((await run(['export', '--format', 'xml'], { folder })).stderr).toContain(
    'There is no format "xml". Formats: atif.',
  );
});

test('what cannot be imported is refused with a sentence, and nothing is stored', LATER, async () => {
  const deep = `${'['.repeat(200)}${']'.repeat(200)}`;
  const step = TRAJECTORY.steps[0];
  const sub = { ...TRAJECTORY, trajectory_id: 'x' };
  const cases: [read: () => unknown, said: RegExp][] = [
    [() => readAtif('{'), /^This is no ATIF trajectory that can be imported: it is not JSON/],
    [() => readAtif('null'), /its schema_version is missing; ATIF-v1.0 to v1.x are known/],
    [() => readAtif(atif({ schema_version: 'ATIF-v2.0' })), /its schema_version is "ATIF-v2.0"/],
    [() => readAtif(atif({ steps: [] })), /\$\.steps: .*1/],
    [
      () => readAtif(atif({ steps: [{ ...step, step_id: 2 }] })),
      /\$\.steps\[0\]\.step_id is 2, but steps count from 1/,
    ],
    [() => readAtif(atif({ steps: [{ ...step, source: 'tool' }] })), /\$\.steps\[0\]\.source/],
    [() => readAtif(atif({ steps: [{ ...step, timestamp: 'yesterday' }] })), /\$\.steps\[0\]\.timestamp/],
    [() => readAtif(atif({ subagent_trajectories: [{ trajectory_id: 'x' }] })), /its schema_version is missing/],
    [() => readAtif(atif({ subagent_trajectories: [sub, sub] })), /two subagents have the trajectory_id "x"/],
    [
      () => readAtif(atif({ extra: JSON.parse('{"a":{"__proto__":{"isAdmin":true}}}') })),
      /\$\.extra\.a has a field "__proto__"/,
    ],
    [() => readAtif(atif({ extra: JSON.parse(deep) })), /nested deeper than 100 levels/],
    [() => readOtlp('[]'), /OTLP JSON trace that can be imported/],
    [() => readOtlp('{"resourceSpans":[]}'), /it has no spans/],
    [() => readOtlp(traces({ traceId: 'a' })), /startTimeUnixNano/],
    [() => readOtlp(traces(span(0, { a: 1 }))), /none of its 1 spans is a call of a model or a tool/],
    [() => readOtlp(traceOf(Array.from({ length: 200_001 }, () => ({})))), /more than 200000 spans/],
    [
      () => readOtlp(traces(span(0, { 'gen_ai.operation.name': 'chat', 'gen_ai.input.messages': deep }))),
      /nested deeper/,
    ],
  ];
  for (const [read, said] of cases) expect(read).toThrow(said);
  const folder = temporaryFolder();
  writeFileSync(join(folder, 'bad.json'), atif({ steps: [step, { ...step, step_id: 3 }] }));
  const { code, stderr } = await run(['import', 'atif', 'bad.json'], { folder });
  expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining('Nothing was stored.') });
  expect((await run(['import', 'atif', 'none.json'], { folder })).stderr).toContain('There is no file none.json.');
  expect((await run(['import', 'codex', 'none.json'], { folder })).stderr).toContain('Tools: claude, atif, otlp.');
});
