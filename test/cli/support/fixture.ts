import { cpSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { CheckpointId } from '../../../src/core/record/id.ts';
import { CheckpointManager } from '../../../src/manager/checkpoint-manager.ts';
import { SqliteCheckpointStorage } from '../../../src/storage/sqlite/sqlite-storage.ts';
import { newFolder } from './folder.ts';

/** A folder with a storage: a chat of eight rounds that goes wrong in round 6, with a branch and a tag, and a small second session. */
export type Fixture = {
  readonly folder: string;
  /** The ids of the rounds of the chat: the first is `ids[1]`. */
  readonly ids: readonly CheckpointId[];
  readonly forkId: CheckpointId;
};

export const CHAT = 'support-42';
export const ROUNDS = 8;
export const DATABASE = join('.savestate', 'checkpoints.db');

/** Fixed times, an hour apart: the first round was on the morning of this day. */
export const START_MS = Date.UTC(2026, 0, 31, 8);
const HOUR_MS = 3_600_000;

type ChatState = { messages: { role: string; content: string }[]; plan: string[]; tone: string; at?: Date };

function textOf(round: number): string {
  if (round === 5) return 'I want a refund for order 1042, please.';
  return round % 2 === 1 ? `Question ${round}: where is my parcel?` : `Answer ${round}: it is on its way to you.`;
}

/** Makes the storage of the fixture in a folder. */
export async function createChat(folder: string): Promise<Fixture> {
  mkdirSync(join(folder, '.savestate'), { recursive: true });
  let nowMs = START_MS;
  const storage = new SqliteCheckpointStorage({ path: join(folder, DATABASE), durability: 'process' });
  const manager = new CheckpointManager({ storage, now: () => nowMs });
  const other = await manager.session('other');
  await other.save({ greeting: 'hello' }, { userId: 'user_2' });
  const session = await manager.session(CHAT);
  const state: ChatState = { messages: [], plan: ['greet', 'help'], tone: 'dry and to the point, always' };
  const ids: CheckpointId[] = ['' as CheckpointId]; // rounds are counted from 1
  for (let round = 1; round <= ROUNDS; round++) {
    nowMs = START_MS + round * HOUR_MS;
    state.messages.push({ role: round % 2 === 1 ? 'user' : 'assistant', content: textOf(round) });
    if (round === 3) state.tone = 'dry and to the point, mostly';
    if (round === 6) state.plan = [];
    await session.step('model', () => `said ${round}`);
    ids.push(
      await session.save(state, {
        type: 'auto',
        trigger: 'message_appended',
        userId: 'user_1',
        status: round >= 6 ? 'FAILED' : 'RUNNING',
        metadata: { round },
      }),
    );
  }
  await manager.tag(ids[4] ?? '', 'v1');
  const { headId } = await manager.fork(ids[5] ?? '', {
    branch: 'what-if',
    edit: [{ op: 'replace', path: '/tone', value: 'warm' }],
    reason: 'try it warmer',
    author: 'ann',
  });
  await manager.close();
  return { folder, ids, forkId: headId };
}

/** The fixture of a test file: made once, `get` gives one to look at for all tests, `copy` one of its own for a test that changes it. */
export function sharedChat(): { get(): Promise<Fixture>; copy(): Promise<Fixture> } {
  let made: Promise<Fixture> | undefined;
  let shared: Promise<Fixture> | undefined;
  const copy = async () => {
    made ??= createChat(newFolder()); // never opened again, so that it can be copied while others look at theirs
    const fixture = await made;
    const folder = newFolder();
    cpSync(join(fixture.folder, '.savestate'), join(folder, '.savestate'), { recursive: true });
    return { ...fixture, folder };
  };
  const get = () => {
    shared ??= copy();
    return shared;
  };
  return { get, copy };
}
