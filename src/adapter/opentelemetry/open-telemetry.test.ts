import { trace } from '@opentelemetry/api';
import { beforeAll, beforeEach, expect, test } from 'vitest';
import { STORAGES } from '../../../test/support/storages.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { openTelemetry } from './index.ts';

type Recorded = {
  readonly name: string;
  readonly attributes: { readonly [name: string]: unknown };
  readonly events: readonly { readonly name: string; readonly attributes: object }[];
  readonly status: { readonly code: number; readonly message?: string };
  readonly parentSpanContext?: { readonly spanId: string };
  spanContext(): { readonly spanId: string };
};
type Exporter = { getFinishedSpans(): Recorded[]; reset(): void };
type Made<Thing> = new (...args: object[]) => Thing;

/** The SDK that programs use with the API. Imported by a name that the compiler does not follow: types alone would need no more. */
const SDK: string = '@opentelemetry/sdk-trace-node';
const { InMemorySpanExporter, NodeTracerProvider, SimpleSpanProcessor } = (await import(SDK)) as {
  InMemorySpanExporter: Made<Exporter>;
  NodeTracerProvider: Made<{ register(): void }>;
  SimpleSpanProcessor: Made<object>;
};

const exporter = new InMemorySpanExporter();
beforeAll(() => new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }).register());
beforeEach(() => exporter.reset());

const open = async (storage = STORAGES[0]?.[1]().storage ?? new InMemoryCheckpointStorage()) =>
  new CheckpointManager({ storage, telemetry: await openTelemetry() });

test.each(STORAGES.filter(([name]) => name !== 'file'))(
  '%s: saves, steps and restores are spans',
  async (_, create) => {
    const { storage } = create();
    const manager = await open(storage);
    const session = await manager.session('orders');
    await session.step('find', () => trace.getTracer('mine').startActiveSpan('chat m-1', (span) => span.end()));
    const id = await session.save({ count: 1 }, { agentId: 'clerk', trigger: 'message_appended' });
    await manager.restore(id);
    const [chat, step, save, restore, ...more] = exporter.getFinishedSpans();
    expect(more).toEqual([]);
    expect(chat?.parentSpanContext?.spanId).toBe(step?.spanContext().spanId);
    expect(step).toMatchObject({
      name: 'execute_tool find',
      attributes: {
        'gen_ai.operation.name': 'execute_tool',
        'gen_ai.tool.name': 'find',
        'gen_ai.conversation.id': 'orders',
        'savestate.step.replayed': false,
      },
    });
    const { stateDigest } = await manager.open(id);
    const about = { 'gen_ai.conversation.id': 'orders', 'gen_ai.agent.id': 'clerk', 'savestate.branch': 'main' };
    expect(save).toMatchObject({
      name: 'savestate.save',
      attributes: { ...about, 'savestate.trigger': 'message_appended', 'savestate.state.digest': stateDigest },
      events: [{ name: 'gen_ai.agent.checkpointed', attributes: { 'gen_ai.agent.checkpoint.id': id } }],
    });
    expect(restore).toMatchObject({
      name: 'savestate.restore',
      attributes: about,
      events: [{ name: 'gen_ai.agent.resumed', attributes: { 'gen_ai.agent.resumed_from.id': id } }],
    });
    await manager.close();
  },
);

test('what is replayed says so; what fails has its code, and not its words', async () => {
  const storage = new InMemoryCheckpointStorage();
  const [first, second] = [await open(storage), await open(storage)];
  await (await first.session('a')).step('pay', () => 39);
  const session = await second.session('a');
  await session.step('pay', () => expect.unreachable());
  await expect(
    session.step('call', () => {
      throw new Error('the key is sk-123');
    }),
  ).rejects.toThrow('sk-123');
  await expect(session.save({ run: () => 1 })).rejects.toMatchObject({ code: 'INVALID_INPUT' });
  const [, replayed, failed, refused] = exporter.getFinishedSpans();
  expect(replayed?.attributes['savestate.step.replayed']).toBe(true);
  expect(failed).toMatchObject({ attributes: { 'error.type': 'Error' }, status: { code: 2 } });
  expect(refused).toMatchObject({ name: 'savestate.save', attributes: { 'error.type': 'INVALID_INPUT' } });
  expect(
    JSON.stringify(exporter.getFinishedSpans().map(({ status, attributes }) => [status, attributes])),
  ).not.toContain('sk-123');
});

test('[secret.1] a step that is refused for the secret in its name is in no span', async () => {
  const session = await (await open()).session('a');
  const token = `ghp_${'0123456789abcdefghij'.repeat(2).slice(0, 36)}`;
  await expect(session.step(`call ${token}`, () => expect.unreachable())).rejects.toThrow(
    'holds what looks like a secret',
  );
  expect(exporter.getFinishedSpans()).toEqual([]);
});

test('a save is in the order and of the state it was called with, as without', async () => {
  const manager = await open();
  const session = await manager.session('a');
  const state = { count: 0 };
  const ids = await Promise.all(
    Array.from({ length: 20 }, (_, count) => {
      state.count = count;
      return session.save(state);
    }),
  );
  const counts = await Promise.all(ids.map(async (id) => (await manager.load<{ count: number }>(id)).count));
  expect(counts).toEqual(Array.from({ length: 20 }, (_, count) => count));
  expect(exporter.getFinishedSpans()).toHaveLength(20);
});

test('what is no telemetry is refused', () => {
  const storage = new InMemoryCheckpointStorage();
  expect(() => new CheckpointManager({ storage, telemetry: {} as never })).toThrow('telemetry');
});
