import { spawnSync } from 'node:child_process';
import { hostname } from 'node:os';
import { expect, test } from 'vitest';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { PROCESS_ID } from '../../storage/process-identity.ts';
import { scriptedModel } from '../../testing/model/scripted-model.ts';
import { StandardAgent } from '../agent/standard-agent.ts';
import { CheckpointingGroupChatManager } from '../chat/checkpointing-group-chat-manager.ts';
import { GroupChat } from '../chat/group-chat.ts';
import { beginOwner, isGone, withSeat } from './seat.ts';

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

test('[run.3] the lease of a process of this machine that is gone is taken over at once, that of another machine is not', async () => {
  const { owner, end } = beginOwner();
  const [machine = ''] = owner.split('/');
  const { pid } = spawnSync(process.execPath, ['-e', '']);
  const gone = [`${machine}/${pid}/abc`, `${machine}/${PROCESS_ID}/abc`];
  const alive = [owner, `${machine}/${process.ppid}/abc`, `elsewhere/${pid}/abc`, hostname(), undefined];
  expect([gone.map(isGone), alive.map(isGone)]).toEqual([
    [true, true],
    [false, false, false, false, false],
  ]);
  end();
  expect(isGone(owner)).toBe(true);
  for (const [holder, isTaken] of [
    ...gone.map((name) => [name, true] as const),
    [`elsewhere/${pid}/abc`, false],
  ] as const) {
    const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
    await (await manager.session('s')).lease({ owner: holder });
    const seat = withSeat(manager, { sessionId: 's' }, async (session) => session.save({ n: 1 }));
    if (isTaken) await seat;
    else await expect(seat).rejects.toMatchObject({ code: 'CONFLICT' });
  }
});
