import { expect, test } from 'vitest';
import { describeOn, LATER } from '../../../test/support/later.ts';
import { STORAGES } from '../../../test/support/storages.ts';
import { CheckpointManager } from '../checkpoint-manager.ts';
import type { RetentionPolicy } from '../retention/retention-policy.ts';
import { Workers } from '../workers/workers.ts';
import type { GroupMember } from './group-member.ts';

const DAY_MS = 86_400_000;

/** Three agents of one team. */
function teamOf(name: string, userId?: string): GroupMember[] {
  return ['a', 'b', 'c'].map((agent) => ({
    name: agent,
    agent: { id: `${name}-${agent}`, n: 0, ...(userId !== undefined && { userId }) },
  }));
}

/** Checks that every group can be restored, and that nothing of any other group is left. */
async function checkWhole(manager: CheckpointManager): Promise<number> {
  const { checkpoints } = await manager.list({}, { limit: 1000 });
  const groups = checkpoints.filter(({ type }) => type === 'group');
  const members = new Set<string>();
  for (const { id } of groups)
    for (const { checkpoint } of (await new Workers(manager).restoreGroup(id)).members.values())
      members.add(checkpoint.id);
  const pins = await manager.engine.storage.readRefs({ kind: 'pin' });
  expect(new Set(pins.map(({ target }) => target))).toEqual(members);
  expect((await manager.verify()).findings).toEqual([]);
  return groups.length;
}

async function saveTimes(manager: CheckpointManager, team: readonly GroupMember[], times: number): Promise<string[]> {
  const ids: string[] = [];
  for (let n = 0; n < times; n++) {
    for (const member of team) if (typeof member === 'object' && 'agent' in member) (member.agent as { n: number }).n++;
    ids.push((await new Workers(manager).saveGroup(team, { groupId: 'team' })).id);
  }
  return ids;
}

const LIMITS: [RetentionPolicy, number][] = [
  [{ maxCheckpoints: 10 }, 8],
  [{ maxCheckpointsPerUser: 2 }, 4],
  [{ maxCheckpointsPerUser: 10 }, 8],
  [{ maxCheckpoints: 4 }, 4],
  [{ maxCheckpoints: 1 }, 4],
];

describeOn(STORAGES)('groups and limits on %s', (storageName, create) => {
  // The limits are the manager's: the other storages show that they can do what it asks for.
  test.each(storageName === 'memory' ? LIMITS : LIMITS.slice(0, 2))(
    '[group.7] with %o the oldest groups go whole, and none is refused',
    async (retention, left) => {
      const manager = new CheckpointManager({ storage: create().storage, retention });
      const ids = await saveTimes(manager, teamOf('t', 'ann'), 4);
      expect((await manager.stats()).checkpoints).toBe(left);
      expect(await checkWhole(manager)).toBe(left / 4);
      const { checkpoints } = await manager.list({ type: 'group' });
      expect(checkpoints.map(({ id }) => id)).toEqual(ids.toReversed().slice(0, left / 4));
      await manager.close();
    },
  );

  test('[group.7] teams that are idle longest end whole, and begin anew', LATER, async () => {
    const manager = new CheckpointManager({ storage: create().storage, retention: { maxCheckpoints: 10 } });
    const teams = ['t1', 't2', 't3', 't4'].map((groupId) => ({ groupId, members: teamOf(groupId) }));
    for (let round = 0; round < 2; round++) {
      for (const { groupId, members } of teams) {
        await new Workers(manager).saveGroup(members, { groupId });
        expect((await manager.stats()).checkpoints).toBeLessThanOrEqual(10);
        await checkWhole(manager);
      }
    }
    const { checkpoints } = await manager.list({ type: 'group' });
    expect(checkpoints.map(({ sessionId }) => sessionId)).toEqual(['t4', 't3']);
    await manager.close();
  });

  test('[group.7] an agent of several teams keeps what the teams that stay need of it', async () => {
    const manager = new CheckpointManager({ storage: create().storage, retention: { maxCheckpoints: 5 } });
    const shared = { id: 'shared' };
    for (const groupId of ['t1', 't2', 't3'])
      await new Workers(manager).saveGroup(
        [
          { name: 'own', agent: { id: groupId } },
          { name: 'shared', agent: shared },
        ],
        {
          groupId: `group ${groupId}`,
        },
      );
    expect(await checkWhole(manager)).toBe(1);
    expect((await manager.stats()).checkpoints).toBe(3);
    await manager.close();
  });

  test('[group.7] two processes with limits save groups side by side', async () => {
    const { storage } = create();
    const managers = [0, 1].map(() => new CheckpointManager({ storage, retention: { maxCheckpoints: 9 } }));
    const teams = managers.map((_, n) => teamOf(`t${n}`));
    for (let round = 0; round < 5; round++)
      await Promise.all(
        managers.map((manager, n) => new Workers(manager).saveGroup(teams[n] ?? [], { groupId: `team ${n}` })),
      );
    for (const manager of managers) await manager.engine.settled();
    const [manager] = managers as [CheckpointManager];
    await manager.prune();
    expect((await manager.stats()).checkpoints).toBeLessThanOrEqual(9);
    expect(await checkWhole(manager)).toBeGreaterThan(0);
    await manager.close();
  });

  test('[group.7] by age a group goes with its members, and an idle team with its sessions', async () => {
    let nowMs = Date.UTC(2026, 0, 1);
    const manager = new CheckpointManager({ storage: create().storage, now: () => nowMs });
    const team = teamOf('t');
    await saveTimes(manager, team, 2);
    nowMs += 3 * DAY_MS;
    await saveTimes(manager, team, 1);
    expect((await manager.prune({ policy: { maxAgeDays: 2 } })).deleted).toHaveLength(8);
    expect(await checkWhole(manager)).toBe(1);
    nowMs += 3 * DAY_MS;
    expect((await manager.prune({ policy: { maxAgeDays: 2 } })).deleted).toHaveLength(4);
    expect((await manager.stats()).sessions).toBe(0);
    await manager.close();
  });

  test('[group.7] a group that is deleted by hand, by the prune of its session or with it takes its members along', async () => {
    const manager = new CheckpointManager({ storage: create().storage });
    const ids = await saveTimes(manager, teamOf('t'), 4);
    expect(await manager.delete(ids[0] ?? '')).toBe(true);
    expect((await manager.stats()).checkpoints).toBe(12);
    expect(await checkWhole(manager)).toBe(3);
    const { deleted } = await manager.prune({ sessionId: 'team', policy: { maxCheckpoints: 2 } });
    expect(deleted).toHaveLength(4);
    expect(await checkWhole(manager)).toBe(2);
    await manager.deleteSession('team');
    expect(await checkWhole(manager)).toBe(0);
    expect((await manager.stats()).checkpoints).toBe(3); // the heads of the agents
    await manager.close();
  });

  test('[group.7] a member that is tagged stays when its group goes; a group that is tagged keeps its members', async () => {
    const manager = new CheckpointManager({ storage: create().storage });
    const ids = await saveTimes(manager, teamOf('t'), 3);
    const { members } = await new Workers(manager).restoreGroup(ids[0] ?? '');
    const member = members.get('a')?.checkpoint.id ?? '';
    await manager.tag(member, 'good');
    await manager.tag(ids[1] ?? '', 'kept');
    const { deleted } = await manager.prune({ policy: { maxCheckpoints: 5 } });
    expect(deleted).toHaveLength(3);
    expect(await manager.get(member)).toBeDefined();
    expect((await manager.list({ type: 'group' })).checkpoints).toHaveLength(2);
    await manager.close();
  });

  test('[group.7] groups go by a rule of their type, and members that have one follow it', async () => {
    const types = { group: { keepLast: 2 }, noted: { keepLast: 3 } };
    const manager = new CheckpointManager({ storage: create().storage, retention: { types } });
    const session = await manager.session('noted');
    for (let n = 0; n < 5; n++) {
      const team: GroupMember[] = [
        { name: 'plain', agent: { id: 'plain', n } },
        { name: 'noted', session, state: { n }, options: { type: 'noted' } },
      ];
      await new Workers(manager).saveGroup(team, { groupId: 'team' });
    }
    expect((await manager.list({ type: 'group' })).checkpoints).toHaveLength(2);
    expect((await manager.list({ type: 'group_member' })).checkpoints).toHaveLength(2);
    expect((await manager.list({ type: 'noted' })).checkpoints).toHaveLength(3);
    expect(await checkWhole(manager)).toBe(2);
    await manager.close();
  });
});
