import { describe, expect, test } from 'vitest';
import { STORAGES } from '../../../test/support/storages.ts';
import { CheckpointManager } from '../checkpoint-manager.ts';

describe.each(STORAGES)('%s', (_name, create) => {
  test('[retention.15] forgetting a user names what others saved after the user, and recorded steps', async () => {
    const manager = new CheckpointManager({ storage: create().storage });
    const shared = await manager.session('shared');
    await shared.save({ messages: [] }, { userId: 'bob' });
    await shared.save({ messages: ['of ann'] }, { userId: 'ann' });
    await shared.step('reply', () => 'a reply to ann');
    const after = await shared.save({ messages: ['of ann', 'of bob'] }, { userId: 'bob' });
    const last = await shared.save({ messages: ['of ann', 'of bob', 'more'] });
    const left = [{ sessionId: 'shared', checkpoints: [after, last], steps: 1 }];
    const forgotten = { checkpoints: 1, sessions: ['shared'], memories: 0, left };
    expect(await manager.forgetUser('ann', { dryRun: true })).toEqual(forgotten);
    expect(await manager.forgetUser('ann')).toEqual(forgotten);
    expect(await manager.forgetUser('ann')).toEqual({ checkpoints: 0, sessions: [], memories: 0, left: [] });
    await expect(manager.forgetUser('ann', { dryrun: true } as never)).rejects.toThrow('dryRun');
    await manager.close();
  });
});
