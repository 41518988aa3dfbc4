import { describe, test } from 'vitest';
import { readAtif } from '../../../src/adapter/interchange/atif.ts';
import { storeRuns } from '../../../src/adapter/interchange/imported-session.ts';
import { readOtlp } from '../../../src/adapter/interchange/otlp.ts';
import { type EncodedState, findIn, StateCodec } from '../../../src/core/codec/state-codec.ts';
import { applyPatch } from '../../../src/core/diff/apply-patch.ts';
import type { JsonPatchOperation } from '../../../src/core/diff/change.ts';
import type { Chunk } from '../../../src/core/tree/chunk.ts';
import { CheckpointManager } from '../../../src/manager/checkpoint-manager.ts';
import { chainLine } from '../../../src/manager/transfer/export.ts';
import { InMemoryCheckpointStorage } from '../../../src/storage/memory/memory-storage.ts';
import type { Random } from '../../../src/testing/contract/random.ts';
import { trials } from '../../support/trials.ts';
import { fuzz } from './fuzz.ts';
import { anyText, mutateJson, mutateText } from './mutate.ts';

const LONG_LIST = Array.from({ length: 150 }, (_, n) => ({ role: 'user', content: `message ${n} ${'x'.repeat(n)}` }));
const STATES: readonly unknown[] = [
  { messages: LONG_LIST.slice(0, 3), plan: { tone: 'warm' } },
  { messages: LONG_LIST, byName: Object.fromEntries(LONG_LIST.map((each, n) => [`name ${n}`, each])) },
  new Map<unknown, unknown>([
    ['a', new Set([1, 'b', new Date(0)])],
    [{ key: 1 }, [undefined, 10n, -0, Number.NaN]],
  ]),
  [
    new Uint8Array([1, 2, 3]),
    new URL('https://example.org/a?b'),
    /a+/gi,
    new TypeError('odd', { cause: new Error('in') }),
  ],
  { $: ['Date', 1], ['__proto__']: { a: 1 }, 'line\u2028': 'long text '.repeat(1_000) },
];

const codec = new StateCodec();
const ENCODED = STATES.map((state) => codec.encode(state));

/** A state of the corpus with one of its chunks changed. */
function drawChunks(random: Random): { readonly root: Chunk; readonly chunks: readonly Chunk[] } {
  const { root, chunks } = random.pick(ENCODED as [EncodedState, ...EncodedState[]]);
  const texts = [root, ...chunks].map(({ text }) => text);
  const at = random.below(texts.length);
  const changed = [root, ...chunks].map((chunk, index) => {
    if (index !== at) return chunk;
    const isText = random.below(2) === 0;
    const text = isText
      ? mutateText(random, chunk.text, texts)
      : JSON.stringify(mutateJson(random, JSON.parse(chunk.text)));
    return {
      ...chunk,
      text: text ?? 'null',
      ...(random.below(6) === 0 && { refs: [...chunk.refs, ...root.refs].slice(1) }),
    };
  });
  return { root: changed[0] ?? root, chunks: changed.slice(1) };
}

test('a decoder takes what it wrote, and refuses the rest with an error that says so', async () => {
  await fuzz('decoder', {
    trials: trials(20_000),
    draw: drawChunks,
    run: ({ root, chunks }) => {
      const state = codec.decode(root, findIn(new Map(chunks.map((chunk) => [chunk.digest, chunk]))));
      codec.encode(state);
    },
  });
});

test('a patch is applied, or refused with an error that says so', async () => {
  const state = { messages: [{ role: 'user', content: 'hi' }], plan: { tone: 'warm' }, list: [1, 2, 3] };
  const patch = [
    { op: 'add', path: '/messages/-', value: { role: 'user' } },
    { op: 'replace', path: '/plan/tone', value: 'cool' },
    { op: 'move', from: '/list/0', path: '/list/2' },
    { op: 'copy', from: '/plan', path: '/other' },
    { op: 'test', path: '/list', value: [2, 3, 1] },
    { op: 'remove', path: '/messages/0' },
  ];
  const paths = [
    '/messages/0',
    '/list/1',
    '/__proto__/x',
    '/constructor/prototype/x',
    '/plan/~0~1',
    '',
    '/',
    '/list/-',
    '/list/01',
    '/list/1e3',
  ];
  const names = ['add', 'replace', 'move', 'copy', 'test', 'remove'] as const;
  await fuzz('patches', {
    trials: trials(20_000),
    draw: (random) =>
      random.below(2) === 0
        ? mutateJson(random, patch)
        : Array.from({ length: 1 + random.below(8) }, () => ({
            op: random.pick(names),
            path: anyText(random, paths),
            from: anyText(random, paths),
            value: mutateJson(random, state),
          })),
    run: (operations) => {
      const before = JSON.stringify(state);
      // The call that takes what strangers wrote checks that it is a list.
      if (Array.isArray(operations)) codec.encode(applyPatch(state, operations as JsonPatchOperation[]));
      return JSON.stringify(state) === before ? undefined : 'the state that was patched changed';
    },
  });
});

async function exportedLines(): Promise<string[]> {
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  const session = await manager.session('exported');
  const ids = [];
  for (const state of STATES) ids.push(await session.save(state, { metadata: { n: 1 }, note: 'a note' }));
  await session.step('ask', () => ({ answer: 'x'.repeat(5_000) }));
  await session.save({ last: true });
  await manager.tag(ids[1] ?? '', 'v1');
  await manager.fork(ids[0] ?? '', { branch: 'side' });
  await manager.delete(ids[2] ?? '');
  let text = '';
  for await (const part of manager.exportSession('exported')) text += part;
  return text.trimEnd().split('\n');
}

/** The file with a new last line, so that not the chain but what it says is found. */
function seal(lines: readonly string[]): string {
  const digest = lines.reduce<Parameters<typeof chainLine>[0]>(chainLine, '');
  return [...lines, JSON.stringify({ end: { lines: lines.length, digest } })].join('\n');
}

test('an import brings in all of a session or nothing, and refuses with an error that says why', async () => {
  const lines = (await exportedLines()).slice(0, -1);
  await fuzz('session import', {
    trials: trials(5_000),
    draw: (random) => {
      if (random.below(4) === 0) return mutateText(random, seal(lines), lines);
      const changed = [...lines];
      const at = random.below(lines.length);
      const line = lines[at] ?? '';
      const how = random.below(6);
      if (how === 0) changed.splice(at, 1);
      else if (how === 1) changed.splice(at, 0, lines[random.below(lines.length)] ?? '');
      else if (how === 2) changed[at] = mutateText(random, line, lines);
      else changed[at] = JSON.stringify(mutateBody(random, JSON.parse(line)));
      return seal(changed);
    },
    run: async (text) => {
      const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
      const failure = await manager.importSession(linesOf(text)).then(
        () => undefined,
        (error: unknown) => error,
      );
      const { findings } = await manager.verify();
      if (findings.length > 0) return `verify: ${JSON.stringify(findings[0])}`;
      const { sessions, checkpoints } = await manager.stats();
      if (failure === undefined) {
        for (const { id } of (await manager.list({}, { limit: 100 })).checkpoints) await manager.load(id);
        return undefined;
      }
      if (sessions + checkpoints > 0) return 'a refused import left something';
      throw failure;
    },
  });
});

/** Changes a line of an export; now and then inside the text of the record that is in it. */
function mutateBody(random: Random, line: unknown): unknown {
  if (random.below(2) === 0) return mutateJson(random, line);
  return JSON.parse(
    JSON.stringify(line, (key, value: unknown) =>
      key === 'body' && typeof value === 'string' ? JSON.stringify(mutateJson(random, JSON.parse(value))) : value,
    ),
  );
}

async function* linesOf(text: string): AsyncGenerator<string> {
  yield text;
}

const TRAJECTORY = {
  schema_version: 'ATIF-v1.7',
  session_id: 'run/1',
  agent: { name: 'worker', version: '2.0', model_name: 'm-1', tool_definitions: [{ type: 'function' }] },
  steps: [
    { step_id: 1, source: 'system', message: 'You fix things.', timestamp: '2026-10-05T12:00:00Z' },
    { step_id: 2, source: 'user', message: [{ type: 'text', text: 'Fix this.' }] },
    {
      step_id: 3,
      timestamp: '2026-10-05T12:00:04.500Z',
      source: 'agent',
      message: 'I look.',
      tool_calls: [{ tool_call_id: 'c1', function_name: 'bash', arguments: { command: 'ls' } }],
      observation: {
        results: [{ source_call_id: 'c1', content: 'a.txt', subagent_trajectory_ref: [{ session_id: 'x' }] }],
      },
      metrics: { prompt_tokens: 120, completion_tokens: 18, cost_usd: 0.01 },
    },
  ],
};

const attribute = (key: string, value: unknown) => ({ key, value });
const TRACES = {
  resourceSpans: [
    {
      resource: { attributes: [attribute('service.name', { stringValue: 'app' })] },
      scopeSpans: [
        {
          spans: [
            {
              traceId: '5b8efff798038103d269b633813fc60c',
              spanId: 'eee19b7ec3c1b174',
              parentSpanId: '',
              name: 'chat m-1',
              startTimeUnixNano: '1544712660000000000',
              endTimeUnixNano: '1544712661000000000',
              attributes: [
                attribute('gen_ai.operation.name', { stringValue: 'chat' }),
                attribute('gen_ai.request.model', { stringValue: 'm-1' }),
                attribute('gen_ai.usage.input_tokens', { intValue: '12' }),
                attribute('gen_ai.input.messages', {
                  stringValue: '[{"role":"user","parts":[{"type":"text","content":"Hi"}]}]',
                }),
                attribute('gen_ai.output.messages', {
                  stringValue: '[{"role":"assistant","parts":[{"type":"text","content":"Ho"}]}]',
                }),
                attribute('gen_ai.conversation.id', { stringValue: 'conversation' }),
              ],
              events: [{ name: 'gen_ai.choice', timeUnixNano: '1544712660500000000', attributes: [] }],
              status: { code: 1 },
            },
          ],
        },
      ],
    },
  ],
};

describe.each([
  ['trajectories', TRAJECTORY, (text: string) => readAtif(text)],
  ['traces', TRACES, (text: string) => readOtlp(text).runs],
] as const)('%s', (name, document, read) => {
  test('are brought in, or refused with an error that says why', async () => {
    const text = JSON.stringify(document);
    await fuzz(name, {
      trials: trials(10_000),
      draw: (random) => {
        if (random.below(3) === 0) return mutateText(random, text, [text]);
        return (
          JSON.stringify(mutateJson(random, random.below(2) === 0 ? document : mutateJson(random, document))) ?? ''
        );
      },
      run: async (given) => {
        const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
        await storeRuns(manager, read(given));
        const { findings } = await manager.verify();
        return findings.length > 0 ? `verify: ${JSON.stringify(findings[0])}` : undefined;
      },
    });
  });
});
