import { expect, test } from 'vitest';
import { describeOn } from '../../../test/support/later.ts';
import { STORAGES } from '../../../test/support/storages.ts';
import { hasErrorCode } from '../../core/errors.ts';
import type { ChunkStorage } from '../../storage/contract.ts';
import { type FaultPlan, faultyStorage } from '../../testing/faulty-storage.ts';
import { CheckpointManager } from '../checkpoint-manager.ts';
import { Workers } from '../workers/workers.ts';
import type { MemberState } from './group-member.ts';
import type { CutOutcome, GroupCut, GroupMembership } from './group-membership.ts';
import type { GroupState } from './group-state.ts';

const groupId = 'team-1';
const pollMs = 5;

/** Long enough that only a member that never answers is too late. */
const TIMEOUT_MS = 10_000;

/** For cuts that must run out of time: enough for those who answer, and short enough to wait for in a test. */
const SHORT_TIMEOUT_MS = 500;

/** A process of a group: a manager of its own, one member, and what it was told. */
class Process {
  readonly manager: CheckpointManager;
  membership: GroupMembership | undefined;
  readonly outcomes: CutOutcome[] = [];
  readonly errors: unknown[] = [];
  /** How many cuts it saw. */
  asked = 0;

  constructor(storage: ChunkStorage) {
    this.manager = new CheckpointManager({ storage });
  }

  async join(name: string, give: (cut: GroupCut) => MemberState | Promise<MemberState>): Promise<this> {
    this.membership = await new Workers(this.manager).joinGroup(groupId, name, {
      pollMs,
      onError: (error) => this.errors.push(error),
      onCut: async (cut) => {
        this.asked++;
        this.outcomes.push(await cut.save(await give(cut)));
      },
    });
    return this;
  }
}

/** Waits for something that another process does. */
async function until(isTrue: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await isTrue())) await new Promise((resolve) => setTimeout(resolve, 2));
}

/** Holds a call up until the test opens it. */
class Gate {
  isReached = false;
  open: () => void = () => undefined;
  readonly #opened = new Promise<void>((resolve) => {
    this.open = resolve;
  });

  pass(): Promise<void> {
    this.isReached = true;
    return this.#opened;
  }
}

function never(): Promise<never> {
  return new Promise(() => undefined);
}

describeOn(STORAGES)('on %s', (_, create) => {
  const start = () => {
    const { storage, reopen = () => storage } = create();
    const processes: CheckpointManager[] = [];
    const open = (plan?: FaultPlan) => {
      const process = new Process(plan === undefined ? reopen() : faultyStorage(reopen(), plan));
      processes.push(process.manager);
      return process;
    };
    const close = async () => {
      for (const manager of processes) await manager.close();
    };
    /** What cuts leave behind besides checkpoints: nothing. */
    const leftovers = async () => {
      const refs = [...(await storage.readRefs({ kind: 'group' })), ...(await storage.readRefs({ kind: 'pin' }))];
      const sessions = await storage.listSessions({ limit: 100 });
      return [...refs.map(({ name }) => name), ...sessions.filter((id) => id.includes('/cut/'))];
    };
    /**
     * A cut that the member aborted while its coordinator stood still before the commit of the group, the third of its commits. Where the
     * member answers too late, the coordinator does not get that far: then again, with more time.
     */
    const abandonedCut = async (member: Process) => {
      for (let timeoutMs = SHORT_TIMEOUT_MS; ; timeoutMs *= 2) {
        const gate = new Gate();
        const { manager } = open({
          delay: (method, nth) => (method === 'commit' && nth === 3 ? gate.pass() : undefined),
        });
        const told = member.outcomes.length;
        let isOver = false;
        const saving = new Workers(manager).saveGroup(['member'], { groupId, pollMs, timeoutMs });
        saving.catch(() => {
          isOver = true;
        });
        await until(() => isOver || member.outcomes.length > told);
        if (gate.isReached && (await storage.readRefs({ kind: 'pin' })).length > 0) return { saving, gate };
        gate.open();
        await saving.catch(() => undefined); // nothing of this attempt comes into the next
        await until(() => member.outcomes.length === member.asked);
      }
    };
    return { storage, open, close, leftovers, abandonedCut };
  };

  test('[group.8] members of other processes take part, beside some of this one', async () => {
    const { open, close, leftovers } = start();
    const sent = { coder: { count: 2, unconfirmed: ['second'] } };
    const planner = await open().join('planner', () => ({ agent: { plan: ['x'] }, sessionId: 'p', sent }));
    const coder = await open().join('coder', async ({ id, deadline }) => {
      expect(id).toMatch(/^chk_/);
      expect(deadline.getTime()).toBeGreaterThan(0);
      const session = await coder.manager.session('c');
      return { session, state: { files: ['a'] }, received: { planner: 1 } };
    });
    const { manager } = open();
    const members = ['coder', { name: 'lead', agent: { n: 1 }, sessionId: 'l' }, 'planner'];
    const first = await new Workers(manager).saveGroup(members, { groupId, pollMs });
    await until(() => coder.outcomes.length === 1 && planner.outcomes.length === 1);
    expect(coder.outcomes).toEqual([{ isCommitted: true, checkpointId: first.id }]);
    expect(planner.outcomes).toEqual(coder.outcomes);
    const state = (await manager.load(first.id)) as GroupState;
    expect(state.members.map(({ name, sessionId }) => [name, sessionId])).toEqual([
      ['coder', 'c'],
      ['lead', 'l'],
      ['planner', 'p'],
    ]);
    const { members: back } = await new Workers(manager).restoreGroup(first.id);
    expect(back.get('coder')).toMatchObject({
      state: { files: ['a'] },
      inFlight: [{ from: 'planner', to: 'coder', number: 2, message: 'second' }],
    });
    const second = await new Workers(manager).saveGroup(['coder', 'planner'], { groupId, pollMs });
    expect(second.parentId).toBe(first.id);
    await until(() => coder.outcomes.length === 2 && planner.outcomes.length === 2);
    for (const { membership } of [coder, planner]) await membership?.close();
    expect([...coder.errors, ...planner.errors]).toEqual([]);
    expect((await leftovers()).every((name) => name.startsWith('group:'))).toBe(true);
    expect(await manager.verify()).toMatchObject({ status: 'clean' });
    await close();
  });

  test('[group.3] a cut is aborted when a member fails or does not answer in time, and every member is told', async () => {
    const { open, close, leftovers } = start();
    const good = await open().join('good', () => ({ agent: { n: 1 }, sessionId: 'good' }));
    let told = 0;
    const goodWasAsked = () => until(() => good.asked > told);
    const failing = await open().join('failing', async () => {
      await goodWasAsked();
      throw new TypeError('I have lost my head.');
    });
    const unsaved = await open().join('unsaved', async () => {
      await goodWasAsked();
      return { agent: { run: () => 1 }, sessionId: 'unsaved' };
    });
    const silent = open();
    await new Workers(silent.manager).joinGroup(groupId, 'silent', {
      pollMs,
      onCut: goodWasAsked,
      onError: () => undefined,
    });
    const hasty = open();
    await new Workers(hasty.manager).joinGroup(groupId, 'hasty', {
      pollMs,
      onError: (error) => hasty.errors.push(error),
      onCut: async (cut) => {
        const part = { agent: { n: 1 }, sessionId: 'hasty' };
        await Promise.all([cut.save(part).then((outcome) => hasty.outcomes.push(outcome)), cut.save(part)]);
      },
    });
    const { manager } = open();
    const save = (names: string[], timeoutMs = TIMEOUT_MS) =>
      new Workers(manager).saveGroup(names, { groupId, pollMs, timeoutMs });
    for (const [name, problem, timeoutMs] of [
      ['failing', /member "failing" failed: I have lost my head/],
      ['unsaved', /member "unsaved" failed: .*\$\.run/],
      ['silent', /member "silent" failed: onCut did not call/],
      ['dead', /dead did not answer within 500 ms/, SHORT_TIMEOUT_MS],
    ] as const) {
      told = good.outcomes.length;
      await expect(save(['good', name], timeoutMs)).rejects.toMatchObject({
        code: 'CONFLICT',
        message: expect.stringMatching(problem),
      });
      await until(() => good.outcomes.length > told);
      expect(good.outcomes.at(-1)).toMatchObject({ isCommitted: false, reason: expect.stringContaining('aborted') });
    }
    expect([good.errors, failing.errors, unsaved.errors].map(({ length }) => length)).toEqual([0, 1, 1]);
    expect((await manager.list({ type: 'group' })).checkpoints).toEqual([]);
    await until(async () => (await leftovers()).length === 0);
    expect(await save(['good', 'hasty'])).toMatchObject({ type: 'group', sequence: 1 });
    await until(() => hasty.outcomes.length + hasty.errors.length === 2);
    expect(hasty.errors).toMatchObject([{ code: 'INVALID_INPUT', message: expect.stringContaining('once') }]);
    await close();
  });

  test('[group.3] a signal aborts a cut', async () => {
    const { open, close, leftovers } = start();
    const { manager } = open();
    const controller = new AbortController();
    const saving = new Workers(manager).saveGroup(['nobody'], { groupId, pollMs, signal: controller.signal });
    await until(async () => (await leftovers()).includes('cut'));
    controller.abort(new Error('no patience'));
    await expect(saving).rejects.toThrow('no patience');
    expect(await leftovers()).toEqual([]);
    await expect(new Workers(manager).saveGroup(['x'], { groupId, signal: controller.signal })).rejects.toThrow(
      'no patience',
    );
    await close();
  });

  test('[group.8] without its coordinator the members abort a cut after its deadline, and a late commit is refused', async () => {
    const { open, close, leftovers, abandonedCut } = start();
    const member = await open().join('member', () => ({ agent: { n: 1 }, sessionId: 'member' }));
    const { saving, gate } = await abandonedCut(member);
    expect(member.outcomes.at(-1)).toMatchObject({ isCommitted: false });
    gate.open();
    await expect(saving).rejects.toMatchObject({
      code: 'CONFLICT',
      message: expect.stringContaining('aborted by another process'),
    });
    expect(member.errors).toEqual([]);
    await until(async () => (await leftovers()).length === 0);
    await close();
  });

  test('[group.8] of two cuts at once one is made, and the other is refused', async () => {
    const { open, close } = start();
    const member = await open().join('member', () => ({ agent: { n: 1 }, sessionId: 'member' }));
    const coordinators = Array.from({ length: 3 }, () => open().manager);
    const results = await Promise.allSettled(
      coordinators.map((manager) => new Workers(manager).saveGroup(['member'], { groupId, pollMs, timeoutMs: 10_000 })),
    );
    const refused = results.filter((result) => result.status === 'rejected');
    expect(refused.length).toBeLessThan(results.length);
    for (const { reason } of refused) expect(hasErrorCode(reason, 'CONFLICT')).toBe(true);
    await until(() => member.outcomes.length === results.length - refused.length);
    const { checkpoints } = await member.manager.list({ type: 'group' });
    expect(checkpoints).toHaveLength(results.length - refused.length);
    await close();
  });

  test('[group.8] who read the head of a group before another saved it asks no member for anything', async () => {
    const { open, close } = start();
    const member = await open().join('member', () => ({ agent: { n: 1 }, sessionId: 'member' }));
    const gate = new Gate();
    const late = open({ delay: (method) => (method === 'commit' ? gate.pass() : undefined) });
    const refused = expect(new Workers(late.manager).saveGroup(['member'], { groupId, pollMs })).rejects.toMatchObject({
      code: 'CONFLICT',
      message: expect.stringContaining('by someone else'),
    });
    await until(() => gate.isReached);
    await new Workers(open().manager).saveGroup(['member'], { groupId, pollMs });
    gate.open();
    await refused;
    expect(member.asked).toBe(1);
    await close();
  });

  test('[group.3] a member whose checkpoint is deleted during the cut makes it fail', async () => {
    const { storage, open, close, leftovers } = start();
    const gate = new Gate();
    // Its commits: the member, the cut, the pin, the group.
    const { manager } = open({ delay: (method, nth) => (method === 'commit' && nth === 4 ? gate.pass() : undefined) });
    const session = await manager.session('member');
    const refused = expect(
      new Workers(manager).saveGroup([{ name: 'member', session, state: { n: 1 } }], { groupId }),
    ).rejects.toMatchObject({ code: 'CONFLICT', details: { missing: expect.any(String) } });
    await until(async () => (await leftovers()).length === 2);
    await open().manager.prune({ policy: { maxCheckpoints: 1 } });
    expect(await leftovers()).toHaveLength(2); // nobody takes a pin away while the cut can still be committed
    await storage.deleteSession(session.id);
    gate.open();
    await refused;
    expect(await leftovers()).toEqual([]);
    await close();
  });

  test('[group.9] what a dead coordinator left is removed by the next cut, or by prune', async () => {
    const { storage, open, close, leftovers, abandonedCut } = start();
    const member = await open().join('member', () => ({ agent: { n: 1 }, sessionId: 'member' }));
    await abandonedCut(member);
    await until(async () => (await leftovers()).every((name) => name.startsWith('group:chk_')));
    const left = await leftovers();
    const preview = await member.manager.prune({ dryRun: true });
    expect(preview.verdicts.map(({ reason }) => reason)).not.toContainEqual(expect.stringContaining('part of group'));
    expect(await leftovers()).toEqual(left);
    await member.manager.prune();
    expect(await leftovers()).toEqual([]);

    // A cut that nobody is there to abort, and reports that nobody removed.
    const { manager } = open({ delay: (method, nth) => (method === 'commit' && nth === 4 ? never() : undefined) });
    const alone = { name: 'alone', agent: { n: 2 }, sessionId: 'alone' };
    new Workers(manager).saveGroup([alone], { groupId, timeoutMs: 1 }).catch(() => undefined);
    await until(async () => (await leftovers()).length === 2);
    const lost = await manager.get((await storage.readRefs({ kind: 'pin' }))[0]?.target ?? '');
    const forgotten = await member.manager.session(`${groupId}/cut/${lost?.id}`);
    await forgotten.save({ some: 'report' });
    await forgotten.close();
    const group = await new Workers(member.manager).saveGroup([alone], { groupId, pollMs });
    await member.manager.prune();
    expect(await leftovers()).toEqual([expect.stringContaining(group.id)]);
    await member.membership?.close();
    await member.manager.gc();
    expect(await member.manager.verify()).toMatchObject({ status: 'clean' });
    await close();
  });

  test('[group.8] a membership ends when it is closed or aborted, after the cut it is in', async () => {
    const { open, close } = start();
    const process = open();
    const controller = new AbortController();
    const options = { pollMs, onCut: () => undefined, onError: () => undefined, signal: controller.signal };
    const membership = await new Workers(process.manager).joinGroup(groupId, 'member', options);
    controller.abort();
    await membership.ended;
    await membership.close();
    const member = await open().join('member', () => {
      member.manager.close().catch((error: unknown) => member.errors.push(error));
      return { agent: { n: 1 }, sessionId: 'member' };
    });
    expect(await new Workers(process.manager).saveGroup(['member'], { groupId, pollMs })).toMatchObject({
      type: 'group',
    });
    await until(() => member.outcomes.length === 1);
    await expect(new Workers(member.manager).joinGroup(groupId, 'member', options)).rejects.toMatchObject({
      code: 'CLOSED',
    });
    await expect(new Workers(process.manager).joinGroup(groupId, '', options)).rejects.toMatchObject({
      code: 'INVALID_INPUT',
    });
    await close();
  });
});
