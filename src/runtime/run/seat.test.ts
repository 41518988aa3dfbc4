import { spawnSync } from 'node:child_process';
import { expect, test } from 'vitest';
import type { SessionId } from '../../core/record/id.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { formatDue, formatHolder } from '../../manager/lease/lease-refs.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { MACHINE, PROCESS_ID } from '../../storage/process-identity.ts';
import { scriptedModel } from '../../testing/model/scripted-model.ts';
import { StandardAgent } from '../agent/standard-agent.ts';
import { CheckpointingGroupChatManager } from '../chat/checkpointing-group-chat-manager.ts';
import { GroupChat } from '../chat/group-chat.ts';
import { withSeat } from './seat.ts';

function team(storage: InMemoryCheckpointStorage, model: ReturnType<typeof scriptedModel>) {
  const agents = ['ann', 'bob'].map((name) => new StandardAgent({ name, model }));
  const chat = new GroupChat({ agents, speakerSelection: 'round_robin', maxRounds: 2 });
  const manager = new CheckpointManager({ storage });
  return new CheckpointingGroupChatManager({ chat, manager, sessionId: 'trip', logs: false });
}

test('[run.3] a second run of a session is refused at once; the first ends as if alone', async () => {
  const storage = new InMemoryCheckpointStorage();
  const second = team(
    storage,
    scriptedModel(() => 'Not paid for.', { id: 'm' }),
  );
  let refused: unknown;
  const model = scriptedModel(
    async () => {
      refused ??= await second.prompt('Second thing', { rounds: 1 }).catch((error: unknown) => error);
      return 'Fine.';
    },
    { id: 'm' },
  );
  expect(await team(storage, model).run({ message: 'First thing' })).toMatchObject({ status: 'ended', newMessages: 3 });
  expect(refused).toMatchObject({
    code: 'CONFLICT',
    message: expect.stringContaining(`"trip" is being worked on already, on branch "main", by process ${process.pid}`),
  });
  const later = team(
    storage,
    scriptedModel(() => 'Now.', { id: 'm' }),
  );
  expect(await later.prompt('Second thing', { rounds: 1 })).toMatchObject({ status: 'ended', newMessages: 2 });
});

test('[run.3] a lease that nobody will renew is taken over at once, here; that of another machine or process is not', async () => {
  const { pid } = spawnSync(process.execPath, ['-e', '']);
  for (const [holder, isTaken] of [
    [`x@${MACHINE}/${pid}-1`, true],
    [`x@${MACHINE}/${PROCESS_ID}`, true],
    [`x@${MACHINE}/${process.ppid}-0`, false],
    [`x@elsewhere/${pid}-1`, false],
    ['x', false],
  ] as const) {
    const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
    const refs = [
      { kind: 'lease', name: 'main', target: formatHolder({ epoch: 1, holder }) },
      { kind: 'due', name: 'main', target: formatDue({ dueAtMs: Date.now() + 60_000, attempts: 0 }) },
    ] as const;
    await manager.engine.storage.commit({ sessionId: 's' as SessionId, refs });
    const seat = withSeat(manager, { sessionId: 's' }, async (session) => session.save({ n: 1 }));
    if (isTaken) await seat;
    else await expect(seat).rejects.toMatchObject({ code: 'CONFLICT' });
  }
});
