import { join } from 'node:path';
import { expect, test } from 'vitest';
import { chatStore, resumableStreams } from '../../src/adapter/ai-sdk/index.ts';
import { SavestateSessionStore } from '../../src/adapter/claude/index.ts';
import { readAtif } from '../../src/adapter/interchange/atif.ts';
import { SavestateSession } from '../../src/adapter/openai-agents/index.ts';
import { CheckpointManager } from '../../src/manager/checkpoint-manager.ts';
import { createServer } from '../../src/server/server.ts';
import type { ChunkStorage } from '../../src/storage/contract.ts';
import { SqliteCheckpointStorage } from '../../src/storage/sqlite/sqlite-storage.ts';
import { temporaryFolder } from '../support/storages.ts';
import { json, ok } from './support/cli.ts';

/** Long enough to be kept apart from its item. */
const LONG = 'It left yesterday. '.repeat(60).trim();

/** The same conversation as each adapter saves it: a question, a thought, a call with its result, an answer. */
const ADAPTERS: readonly [session: string, save: (storage: ChunkStorage) => Promise<void>][] = [
  [
    'claude/shop/s1',
    async (storage) => {
      const store = new SavestateSessionStore(storage);
      const key = { projectKey: 'shop', sessionId: 's1' };
      const entry = (uuid: string, role: 'user' | 'assistant', content: unknown) => ({
        type: role,
        uuid,
        timestamp: '2026-11-18T00:00:00.000Z',
        message: { role, content, ...(role === 'assistant' && { model: 'm-1' }) },
      });
      await store.append(key, [entry('1', 'user', 'Where is order 1042?'), { type: 'summary', summary: 'An order.' }]);
      const thought = { type: 'thinking', thinking: 'Look it up.', signature: 'x' };
      const call = { type: 'tool_use', id: 'c1', name: 'find', input: { order: 1042 } };
      const result = { type: 'tool_result', tool_use_id: 'c1', content: 'at sea' };
      await store.append(key, [entry('2', 'assistant', [thought, call]), entry('3', 'user', [result])]);
      await store.append(key, [entry('4', 'assistant', [{ type: 'text', text: LONG }]), { type: 'tag', tag: 'x' }]);
      await store.append({ ...key, subpath: 'subagents/a' }, [entry('5', 'user', 'Find it.')]);
    },
  ],
  [
    'openai/s1',
    async (storage) => {
      const session = new SavestateSession(storage, 's1');
      await session.addItems([{ role: 'user', content: 'Where is order 1042?' }]);
      await session.addItems([
        { type: 'reasoning', content: [{ type: 'input_text', text: 'Look it up.' }] },
        { type: 'function_call', callId: 'c1', name: 'find', arguments: '{"order":1042}', status: 'completed' },
        {
          type: 'function_call_result',
          callId: 'c1',
          name: 'find',
          status: 'completed',
          output: { type: 'text', text: 'at sea' },
        },
      ]);
      const said = [{ type: 'output_text' as const, text: LONG }];
      await session.addItems([{ role: 'assistant', status: 'completed', content: said }]);
    },
  ],
  [
    'ai-sdk/s1',
    async (storage) => {
      const chats = chatStore(storage);
      await chats.save('s1', [{ id: 'u', role: 'user', parts: [{ type: 'text', text: 'Where is order 1042?' }] }]);
      await chats.save('s1', [{ id: 'no', role: 'assistant', parts: [{ type: 'text', text: 'No idea.' }] }]);
      await chats.regenerateFrom('s1', 'no');
      await chats.save('s1', [
        {
          id: 'a',
          role: 'assistant',
          parts: [
            { type: 'step-start' },
            { type: 'reasoning', text: 'Look it up.' },
            {
              type: 'tool-find',
              toolCallId: 'c1',
              state: 'output-available',
              input: { order: 1042 },
              output: 'at sea',
            },
            { type: 'text', text: LONG },
          ],
        },
      ]);
      const { record } = await resumableStreams(storage).begin('s1');
      await record({ stream: new ReadableStream({ start: (controller) => controller.close() }) });
    },
  ],
];

test.each(ADAPTERS)(
  'a session of an adapter reads like any other, and goes out as a trajectory: %s',
  async (id, save) => {
    const folder = temporaryFolder();
    const storage = new SqliteCheckpointStorage({ path: join(folder, 'agent.db'), durability: 'process' });
    await save(storage);
    const manager = new CheckpointManager({ storage });
    const head = await manager.open({ sessionId: id, at: '@' });
    const at = ['-s', id, '--storage', 'agent.db'];

    const shown = await ok(['show', ...at], { folder });
    for (const words of ['user: Where is order 1042?', 'Look it up.', '[call] find({"order":1042})', 'at sea', LONG])
      expect(shown).toContain(words);
    expect(shown).not.toMatch(/"items"|"bodies"|No idea/);
    expect(await ok(['log', ...at], { folder })).toContain('assistant: ');
    const { status, points } = await json('drift', at, { folder });
    expect([status, points.length > 0]).toEqual(['healthy', true]);

    const exported = JSON.parse(await ok(['export', '--format', 'atif', ...at], { folder }));
    type Step = Record<string, unknown>;
    const steps: Step[] = exported.steps;
    expect(steps[0]).toMatchObject({ step_id: 1, source: 'user', message: 'Where is order 1042?' });
    expect(steps.find(({ reasoning_content: thought }) => thought === 'Look it up.')?.source).toBe('agent');
    expect(steps.find(({ tool_calls: calls }) => calls !== undefined)).toMatchObject({
      source: 'agent',
      tool_calls: [{ tool_call_id: 'c1', function_name: 'find', arguments: { order: 1042 } }],
      observation: { results: [{ source_call_id: 'c1', content: 'at sea' }] },
    });
    expect(steps.at(-1)).toMatchObject({ source: 'agent', message: LONG });
    expect(readAtif(JSON.stringify(exported))[0]?.steps).toHaveLength(steps.length);
    expect(exported.subagent_trajectories?.length).toBe(id.startsWith('claude') ? 1 : undefined);

    // Each message names the place where its words are, or what they are made of.
    const server = createServer(manager, { token: false, studio: false });
    const reply = await server.fetch(new Request(`http://localhost/v1/checkpoints/${head.id}/messages`));
    const { items } = (await reply.json()) as { items: { path: string; text: string }[] };
    expect(items.at(-1)?.text).toContain(LONG);
    for (const { path } of items)
      expect(
        (
          await server.fetch(
            new Request(`http://localhost/v1/checkpoints/${head.id}/value?path=${encodeURIComponent(path)}`),
          )
        ).status,
      ).toBe(200);
    await manager.close();
  },
);
