import { once } from 'node:events';
import { expect, test } from 'vitest';
import { checkedKeys, startServer } from '../../test/support/server.ts';
import { createTeam, type Team } from '../../test/support/team.ts';
import { CheckpointManager } from '../manager/checkpoint-manager.ts';
import { CheckpointRestorer } from '../runtime/chat/checkpoint-restorer.ts';
import { CheckpointingGroupChatManager } from '../runtime/chat/checkpointing-group-chat-manager.ts';
import { InMemoryCheckpointStorage } from '../storage/memory/memory-storage.ts';
import type { ServedTeam } from './handlers/team-runs.ts';

const params = { session: 'team' };
const RUN = 'POST /v1/sessions/{session}/run';

/** A server whose team has said two things; `hold` lets the next reply wait for what it returns. */
async function startTeam(options: { readOnly?: boolean; hold?: (signal: AbortSignal) => Promise<unknown> } = {}) {
  const { readOnly = false, hold } = options;
  const storage = new InMemoryCheckpointStorage();
  const manager = new CheckpointManager({ storage });
  const made: Team[] = [];
  const make = () => {
    const team = createTeam();
    made.push(team);
    return team;
  };
  const talk = (signal?: AbortSignal) =>
    new CheckpointingGroupChatManager({
      chat: make().chat,
      manager,
      sessionId: 'team',
      logs: false,
      ...(signal && { signal }),
    });
  await talk().run({ message: 'What is the square?', rounds: 2 });
  const team: ServedTeam = {
    label: 'squares',
    run: async ({ at, rounds = 1, mode = 'live', signal }) => {
      await hold?.(signal);
      if (at === undefined) return talk(signal).resume({ rounds });
      return new CheckpointRestorer({ manager, registry: make().registry }).continue(at, {
        rounds,
        mode,
        signal,
        logs: false,
      });
    },
  };
  const started = await startServer({ storage, team, readOnly });
  const stopped = async () => {
    const { active } = await started.client.request('GET /v1/sessions/{session}/run', { params });
    return active?.status === 'running' ? undefined : active;
  };
  const countCalls = () => made.reduce((sum, { model }) => sum + model.requests.length, 0);
  return { ...started, countCalls, stopped };
}

test('the team of a server goes on where it was left, and from a checkpoint as a branch that calls nothing', async () => {
  const { client, manager, countCalls, stopped } = await startTeam();
  expect(await client.request('GET /v1/server')).toMatchObject({ team: 'squares' });
  expect(await client.request(RUN, { params, body: { rounds: 2 } })).toMatchObject({ status: 'running', rounds: 2 });
  await expect.poll(stopped, { timeout: 60_000 }).toMatchObject({ status: 'ended', branch: 'main' });
  const { total } = await client.request('GET /v1/checkpoints/{checkpoint}/messages', {
    params: { checkpoint: (await manager.latest({ sessionId: 'team' }))?.id ?? '' },
  });
  expect(total).toBe(5);
  const { ids, messages } = await client.request('GET /v1/sessions/{session}/timeline', { params });
  const at = ids[messages.lastIndexOf(3)] ?? '';
  const calls = countCalls();
  await client.request(RUN, { params, body: { at, rounds: 2, mode: 'frozen' } });
  await expect.poll(stopped, { timeout: 60_000 }).toMatchObject({ status: 'ended', at, mode: 'frozen' });
  expect(countCalls()).toBe(calls);
  expect((await manager.branches('team')).length).toBe(2);
});

test('a run is paused, one at a time; what it was asked twice with one key is done once', async () => {
  const { client, stopped } = await startTeam({ hold: (signal) => once(signal, 'abort') });
  await expect(client.request('DELETE /v1/sessions/{session}/run', { params })).rejects.toMatchObject({ status: 404 });
  const request = { params, body: { rounds: 3 }, idempotencyKey: 'once' };
  expect(await client.request(RUN, request)).toEqual(await client.request(RUN, request));
  await expect(client.request(RUN, { params, body: {} })).rejects.toMatchObject({ status: 409 });
  const paused = await client.request('DELETE /v1/sessions/{session}/run', { params });
  expect(paused).toMatchObject({ status: 'stopped', rounds: 3 });
  await expect.poll(stopped, { timeout: 60_000 }).toMatchObject({ status: 'stopped' });
  expect([checkedKeys.has(RUN), checkedKeys.has('DELETE /v1/sessions/{session}/run')]).toEqual([true, true]);
});

test('what fails is told where the run is', async () => {
  const { client, stopped } = await startTeam({ hold: () => Promise.reject(new Error('no key')) });
  await client.request(RUN, { params, body: {} });
  await expect.poll(stopped, { timeout: 60_000 }).toMatchObject({ status: 'failed', problem: 'no key' });
});

test('a server without a team, one that is read-only, a session that changed, and a request that makes no sense are refused', async () => {
  const { client: reader } = await startTeam({ readOnly: true });
  await expect(reader.request(RUN, { params, body: {} })).rejects.toMatchObject({ status: 403, code: 'READ_ONLY' });
  const { client, manager } = await startTeam();
  const ask = (body: object, ifMatch?: string) => client.request(RUN, { params, body, ...(ifMatch && { ifMatch }) });
  await expect(ask({ mode: 'frozen' })).rejects.toMatchObject({ status: 400 });
  await expect(ask({ rounds: 0 })).rejects.toMatchObject({ status: 400 });
  await expect(ask({ team: 'mine.mjs' })).rejects.toMatchObject({ status: 400 });
  await expect(ask({}, '"older"')).rejects.toMatchObject({ status: 412 });
  const elsewhere = await manager.save({ n: 1 }, { sessionId: 'other' });
  await expect(ask({ at: elsewhere })).rejects.toMatchObject({ status: 404 });
  const { client: bare, manager: empty } = await startServer();
  await empty.save({ n: 1 }, { sessionId: 'team' });
  await expect(bare.request(RUN, { params, body: {} })).rejects.toMatchObject({ status: 501, code: 'UNSUPPORTED' });
});
