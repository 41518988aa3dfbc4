import { expect, test } from 'vitest';
import { createCrew } from '../../../test/fleet/crew.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { RecoveryHandler } from '../../manager/recovery/recovery-options.ts';
import { Workers } from '../../manager/workers/workers.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { AgentRegistry } from '../agent/agent-registry.ts';
import { StandardAgent } from '../agent/standard-agent.ts';
import { CheckpointingGroupChatManager } from '../chat/checkpointing-group-chat-manager.ts';
import { GroupChat } from '../chat/group-chat.ts';
import { FleetRunner } from '../fleet/fleet-runner.ts';

/** A storage in which a worker began something and died with its lease. */
async function abandon(
  begin: (manager: CheckpointManager, signal: AbortSignal) => Promise<{ readonly status: string }>,
) {
  const storage = new InMemoryCheckpointStorage();
  let nowMs = 1_000;
  const open = () => new CheckpointManager({ storage, now: () => nowMs, setTimer: () => () => undefined });
  const stop = new AbortController();
  const manager = open();
  manager.on('checkpoint_saved', ({ sequence }) => {
    if (sequence === 2) stop.abort();
  });
  expect((await begin(manager, stop.signal)).status).toBe('stopped');
  await (await manager.session('work')).lease({ owner: 'elsewhere/1/dead', ttlMs: 1_000 });
  nowMs += 10_000;
  return (handler: (manager: CheckpointManager) => RecoveryHandler) => {
    const other = open();
    return new Workers(other).recoverAbandoned(handler(other), { backoffMs: () => 1 });
  };
}

function chatOf(manager: CheckpointManager, signal?: AbortSignal, fails = false) {
  const next = ({ candidates }: { readonly candidates: readonly string[] }): string | undefined => {
    if (fails) throw new Error('down');
    return candidates[0];
  };
  const agents = ['ann', 'bob'].map((name) => new StandardAgent({ name, defaultReply: 'Hm.' }));
  const registry = new AgentRegistry({ selectors: { next } });
  const chat = new GroupChat({ agents, registry, speakerSelection: { selector: 'next' }, maxRounds: 3 });
  const options = signal === undefined ? {} : { signal };
  return new CheckpointingGroupChatManager({ chat, manager, sessionId: 'work', logs: false, ...options });
}

test('[run.4] a conversation whose process died is found and gone on with; one that fails comes up again', async () => {
  const recover = await abandon((manager, signal) => chatOf(manager, signal).run({ message: 'Well?' }));
  const failing = await recover(
    (manager) => (session, recovery) => chatOf(manager, undefined, true).recover(session, recovery),
  );
  expect(failing).toMatchObject({ counts: { failed: 1 }, failed: [{ error: { message: 'down' } }] });
});

test('[run.4] a recovered conversation ends as it would have', async () => {
  const recover = await abandon((manager, signal) => chatOf(manager, signal).run({ message: 'Well?' }));
  const results: unknown[] = [];
  const handler =
    (manager: CheckpointManager): RecoveryHandler =>
    async (session, recovery) =>
      results.push(await chatOf(manager).recover(session, recovery));
  expect(await recover(handler)).toMatchObject({ counts: { recovered: 1 } });
  expect(results).toMatchObject([{ status: 'ended', messages: { length: 4 } }]);
  expect(await recover(handler)).toMatchObject({ counts: { recovered: 0 } });
});

test('[run.4] a fleet whose process died is found and gone on with', async () => {
  const fleetOf = (manager: CheckpointManager, options: { signal?: AbortSignal } = {}) =>
    new FleetRunner({ fleet: createCrew().fleet, manager, sessionId: 'work', ...options });
  const recover = await abandon((manager, signal) => fleetOf(manager, { signal }).run({ task: 'Find out.' }));
  const results: unknown[] = [];
  const report = await recover((manager) => async (session, recovery) => {
    results.push(await fleetOf(manager).recover(session, recovery));
  });
  expect(report).toMatchObject({ counts: { recovered: 1 } });
  expect(results).toMatchObject([{ status: 'ended', end: { reason: 'satisfied' } }]);
});
