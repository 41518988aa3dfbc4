import { expect, test } from 'vitest';
import { describeOn } from '../../../test/support/later.ts';
import { STORAGES } from '../../../test/support/storages.ts';
import type { CheckpointId, SessionId } from '../../core/record/id.ts';
import { createChunk, digestText } from '../../core/tree/chunk.ts';
import { SecretRef } from '../../core/value/secret-ref.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { type FaultPlan, faultyStorage } from '../../testing/faulty-storage.ts';
import { CheckpointManager } from '../checkpoint-manager.ts';
import type { Session } from '../session/session.ts';
import { Workers } from '../workers/workers.ts';
import type { GroupMember } from './group-member.ts';
import type { GroupState } from './group-state.ts';

class Planner {
  id = 'planner-1';
  plan: string[] = [];
}

/** An agent that says its state itself, by reference, and takes one over in place: the hardest to put back. */
class Coder {
  id = 'coder-1';
  readonly files: string[] = [];
  failsToLoad = false;
  saveState(): unknown {
    return { files: this.files };
  }
  loadState(state: unknown): undefined {
    this.files.length = 0;
    if (this.failsToLoad) throw new Error('The disk is full.');
    this.files.push(...(state as { files: string[] }).files);
  }
}

const groupId = 'team-1';

describeOn(STORAGES)('on %s', (_, create) => {
  test('[group.1] a group is saved as one moment, and brought back to it', async () => {
    const manager = new CheckpointManager({ storage: create().storage });
    const planner = new Planner();
    const coder = new Coder();
    const session = await manager.session('notes');
    const notes = { lines: ['one'] };
    planner.plan.push('write');
    coder.files.push('a.ts');
    const saving = new Workers(manager).saveGroup(
      [
        { name: 'planner', agent: planner },
        { name: 'coder', agent: coder },
        { name: 'notes', session, state: notes },
      ],
      { groupId, note: 'before lunch', metadata: { turn: 3 }, name: 'v1' },
    );
    planner.plan.push('too late');
    coder.files.push('b.ts');
    notes.lines.push('two');
    const group = await saving;
    expect(group).toMatchObject({ sessionId: groupId, type: 'group', note: 'before lunch', metadata: { turn: 3 } });
    const state = (await manager.load(group.id)) as GroupState;
    expect(state.members.map(({ name, sessionId }) => [name, sessionId])).toEqual([
      ['planner', 'planner-1'],
      ['coder', 'coder-1'],
      ['notes', 'notes'],
    ]);
    const { members } = await new Workers(manager).restoreGroup(group.id, {
      into: { planner },
      factory: { coder: () => new Coder() },
    });
    expect(planner.plan).toEqual(['write']);
    expect(members.get('planner')?.agent).toBe(planner);
    expect(members.get('coder')?.agent).toMatchObject({ files: ['a.ts'] });
    expect(members.get('notes')).toMatchObject({ agent: { lines: ['one'] }, report: { status: 'complete' } });
    expect(await manager.verify()).toMatchObject({ status: 'clean' });
    await manager.close();
  });

  test('[group.2] a group checkpoint is an ordinary one: listed, parent of the next, stored once for one key', async () => {
    const manager = new CheckpointManager({ storage: create().storage });
    const saved: string[] = [];
    manager.on('checkpoint_saved', ({ id, type }) => void (type === 'group' && saved.push(id)), { await: true });
    const members = [{ name: 'one', agent: { n: 1 }, sessionId: 'one' }];
    const first = await new Workers(manager).saveGroup(members, { groupId, idempotencyKey: 'turn-1' });
    expect((await new Workers(manager).saveGroup(members, { groupId, idempotencyKey: 'turn-1' })).id).toBe(first.id);
    const others = members.map((member) => ({ ...member, agent: { n: 9 } }));
    await expect(new Workers(manager).saveGroup(others, { groupId, idempotencyKey: 'turn-1' })).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      details: { members: ['one'] },
    });
    expect((await manager.list({ sessionId: 'one' })).checkpoints).toHaveLength(1); // a member is saved once for one key, too
    const second = await new Workers(manager).saveGroup(members, { groupId });
    expect(second).toMatchObject({ parentId: first.id, sequence: 2 });
    expect(saved).toEqual([first.id, first.id, second.id]);
    expect((await manager.list({ type: 'group' })).checkpoints.map(({ id }) => id)).toEqual([second.id, first.id]);
    await expect(manager.save({ n: 1 }, { type: 'group' })).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    await expect(new Workers(manager).restoreGroup(await manager.save({ n: 1 }))).rejects.toMatchObject({
      code: 'INVALID_INPUT',
    });
    expect(await manager.verify()).toMatchObject({ status: 'clean' });
    await manager.close();
  });

  test('[group.3] if a member cannot be saved there is no group checkpoint, and nothing of the cut is left', async () => {
    const { storage } = create();
    const manager = new CheckpointManager({ storage });
    const members = [
      { name: 'good', agent: { n: 1 }, sessionId: 'good' },
      { name: 'bad', agent: { run: () => 1 }, sessionId: 'bad' },
    ];
    await expect(new Workers(manager).saveGroup(members, { groupId })).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      message: expect.stringMatching(/Group "team-1" was not saved\. "bad": .*\$\.run/),
      details: { members: ['bad'] },
    });
    expect((await manager.list({ type: 'group' })).checkpoints).toEqual([]);
    expect((await manager.list({ sessionId: 'good' })).checkpoints).toHaveLength(1);
    expect(await storage.readRefs({ kind: 'pin' })).toEqual([]);
    expect(await storage.readRefs({ kind: 'group' })).toEqual([]);
    for (const [bad, groupOf] of [
      [[], groupId],
      [[...members, { name: 'good', agent: {} }], groupId],
      [[{ name: '', agent: {} }], groupId],
      [[{ name: 'good', agent: {} }], ''],
    ] as const)
      await expect(new Workers(manager).saveGroup(bad, { groupId: groupOf })).rejects.toMatchObject({
        code: 'INVALID_INPUT',
      });
    await expect(new Workers(manager).saveGroup(members, { groupId, timeoutMs: 0 })).rejects.toMatchObject({
      code: 'INVALID_INPUT',
    });
    await manager.close();
  });

  test('[group.3] a member whose session is leased takes part; after a takeover it cannot, and there is no group checkpoint', async () => {
    const { storage, reopen = () => storage } = create();
    const manager = new CheckpointManager({ storage });
    const other = new CheckpointManager({ storage: reopen() });
    const session = await manager.session('one');
    const members = [{ name: 'one', session, state: { n: 1 } }];
    await session.lease({ ttlMs: 1000, renew: 'manual' });
    const group = await new Workers(manager).saveGroup(members, { groupId });
    await (await other.session('one')).lease({ waitMs: 60_000 });
    await expect(new Workers(manager).saveGroup(members, { groupId })).rejects.toMatchObject({
      code: 'CONFLICT',
      details: { members: ['one'] },
    });
    expect((await manager.list({ type: 'group' })).checkpoints.map(({ id }) => id)).toEqual([group.id]);
    await other.close();
    await manager.close();
  });

  test('[group.4] messages in flight are part of the cut, and given back to the member they were sent to', async () => {
    const manager = new CheckpointManager({ storage: create().storage });
    const key = `sk-${'proj'}-${'a1B2'.repeat(12)}`;
    const unconfirmed = [{ text: 'third' }, { text: `use ${key}` }];
    const saving = new Workers(manager).saveGroup(
      [
        { name: 'a', agent: { n: 1 }, sessionId: 'a', sent: { b: { count: 4, unconfirmed } }, received: { b: 7 } },
        { name: 'b', agent: { n: 2 }, sessionId: 'b', sent: { a: { count: 7, unconfirmed: [] } }, received: { a: 2 } },
        { name: 'c', agent: { n: 3 }, sessionId: 'c' },
      ],
      { groupId },
    );
    unconfirmed.pop();
    const group = await saving;
    const { members } = await new Workers(manager).restoreGroup(group.id);
    expect(members.get('b')).toMatchObject({ sent: { a: 7 }, received: { a: 2 } });
    expect(members.get('b')?.inFlight).toEqual([
      { from: 'a', to: 'b', number: 3, message: { text: 'third' } },
      { from: 'a', to: 'b', number: 4, message: { text: expect.stringMatching(/^use \[secret .*\]$/) } },
    ]);
    expect(members.get('a')?.inFlight).toEqual([]);
    await manager.close();
  });

  test('[group.5] a cut that is not consistent is refused', async () => {
    const { storage } = create();
    const manager = new CheckpointManager({ storage });
    const save = (count: number, received: number) =>
      new Workers(manager).saveGroup(
        [
          { name: 'a', agent: { n: 1 }, sessionId: 'a', sent: { b: { count, unconfirmed: [] } } },
          { name: 'b', agent: { n: 2 }, sessionId: 'b', received: { a: received } },
        ],
        { groupId },
      );
    await expect(save(2, 3)).rejects.toMatchObject({ code: 'CONFLICT', details: { from: 'a', to: 'b', number: 3 } });
    await expect(save(2, 1)).rejects.toMatchObject({ code: 'CONFLICT', details: { from: 'a', to: 'b', number: 2 } });
    expect(await storage.readRefs({ kind: 'group' })).toEqual([]);
    expect((await save(2, 2)).type).toBe('group');
    await manager.close();
  });

  test('[group.6] a group is brought back whole or not at all: a member that is missing, damaged or of an unknown type', async () => {
    const plan: FaultPlan = {};
    const manager = new CheckpointManager({ storage: faultyStorage(create().storage, plan) });
    const live = { n: 1 };
    const gone = await manager.session('gone');
    const damaged = await manager.session('damaged');
    const group = await new Workers(manager).saveGroup(
      [
        { name: 'live', agent: live, sessionId: 'live' },
        { name: 'gone', session: gone, state: { n: 2 } },
        { name: 'damaged', session: damaged, state: { n: 3 } },
        { name: 'unknown', agent: new Planner() },
      ],
      { groupId },
    );
    const damagedHead = damaged.head;
    live.n = 99;
    await manager.deleteSession('gone');
    plan.alteredRoots = damagedHead === undefined ? [] : [damagedHead.id];
    const failure = { code: 'NOT_FOUND', details: { members: ['gone', 'damaged', 'unknown'] } };
    await expect(new Workers(manager).restoreGroup(group.id, { into: { live } })).rejects.toMatchObject(failure);
    expect(live).toEqual({ n: 99 });
    await new Workers(manager).restoreGroup(group.id, { into: { live }, only: ['live'] });
    expect(live).toEqual({ n: 1 });
    for (const options of [{ only: ['nobody'] }, { into: { nobody: {} } }, { factory: { nobody: () => ({}) } }])
      await expect(new Workers(manager).restoreGroup(group.id, options)).rejects.toMatchObject({
        code: 'INVALID_INPUT',
        details: { unknown: ['nobody'] },
      });
    await manager.close();
  });

  test('[group.6] if an agent does not take its state, those that did get back what they had', async () => {
    const manager = new CheckpointManager({ storage: create().storage, agents: { Coder: () => new Coder() } });
    const planner = new Planner();
    const good = new Coder();
    const bad = new Coder();
    bad.id = 'coder-2';
    for (const coder of [good, bad]) coder.files.push('saved');
    const group = await new Workers(manager).saveGroup(
      [
        { name: 'planner', agent: planner },
        { name: 'good', agent: good },
        { name: 'bad', agent: bad },
      ],
      { groupId },
    );
    planner.plan.push('later');
    (planner as Planner & { extra?: unknown }).extra = () => 'cannot be saved';
    for (const coder of [good, bad]) coder.files.push('later');
    bad.failsToLoad = true;
    const restoring = new Workers(manager).restoreGroup(group.id, { into: { planner, good, bad } });
    await expect(restoring).rejects.toMatchObject({ message: expect.stringMatching(/left changed.*"bad": The disk/) });
    expect(planner).toMatchObject({ plan: ['later'], extra: expect.any(Function) });
    expect(good.files).toEqual(['saved', 'later']);
    let calls = 0;
    bad.loadState = (state) => {
      if (++calls === 1) throw new Error('not now');
      bad.files.splice(0, bad.files.length, ...(state as { files: string[] }).files);
    };
    bad.files.push('even later');
    await expect(new Workers(manager).restoreGroup(group.id, { into: { planner, good, bad } })).rejects.toMatchObject({
      message: expect.stringMatching(/no agent was changed\. "bad": not now/),
      details: { members: ['bad'] },
    });
    expect(bad.files).toEqual(['even later']);
    await manager.close();
  });

  test('[group.1] after a restore, members and group go on from there; what was saved since stays', async () => {
    const manager = new CheckpointManager({ storage: create().storage });
    const state = { n: 1 };
    const members = [{ name: 'one', agent: state, sessionId: 'one' }];
    const first = await new Workers(manager).saveGroup(members, { groupId });
    state.n = 2;
    const second = await new Workers(manager).saveGroup(members, { groupId });
    const { members: back } = await new Workers(manager).restoreGroup(first.id, { into: { one: state } });
    expect(state).toEqual({ n: 1 });
    const third = await new Workers(manager).saveGroup(members, { groupId });
    const fourth = await new Workers(manager).saveGroup(members, { groupId });
    expect(third).toMatchObject({ parentId: first.id, branch: 'fork-1' });
    expect(fourth).toMatchObject({ parentId: third.id, branch: 'fork-1' });
    const [entry] = ((await manager.load(third.id)) as GroupState).members;
    expect((await manager.get(entry?.checkpointId ?? ''))?.parentId).toBe(back.get('one')?.checkpoint.id);
    await new Workers(manager).restoreGroup(second.id, { into: { one: state } });
    expect(state).toEqual({ n: 2 });
    await manager.close();
  });

  test('[group.7] retention keeps the members of a group checkpoint, and lets them go with it', async () => {
    const manager = new CheckpointManager({ storage: create().storage });
    const session = await manager.session('one');
    const group = await new Workers(manager).saveGroup([{ name: 'one', session, state: { n: 1 } }], { groupId });
    const member = session.head?.id ?? '';
    await session.save({ n: 2 });
    await new Workers(manager).saveGroup([{ name: 'one', session, state: { n: 3 } }], { groupId });
    const policy = { keepLast: 1 };
    const { verdicts } = await manager.prune({ policy: { keepLast: 99 }, dryRun: true });
    expect(verdicts.find(({ id }) => id === member)).toMatchObject({ reason: `part of group ${group.id}` });
    expect((await manager.prune({ policy, dryRun: true })).verdicts.find(({ id }) => id === member)?.keep).toBe(false);
    expect((await manager.prune({ policy })).deleted).toHaveLength(3);
    expect([await manager.get(group.id), await manager.get(member)]).toEqual([undefined, undefined]);
    await manager.gc();
    expect(await manager.verify()).toMatchObject({ status: 'clean', checkpoints: 2 });
    await manager.deleteSession(groupId);
    await manager.prune();
    expect(await manager.stats()).toMatchObject({ checkpoints: 1 });
    await manager.close();
  });

  test('[group.2] a commit whose answer was lost is a group checkpoint all the same; one that failed leaves nothing', async () => {
    const { storage } = create();
    const plan: FaultPlan = {};
    const manager = new CheckpointManager({ storage: faultyStorage(storage, plan) });
    const members = [{ name: 'one', session: await manager.session('one'), state: { n: 1 } }];
    // Commits: the member, the cut, the pin, the group.
    plan.commits = { 4: 'loses_reply', 8: 'fails' };
    const group = await new Workers(manager).saveGroup(members, { groupId });
    expect(await new Workers(manager).restoreGroup(group.id)).toMatchObject({ checkpoint: { id: group.id } });
    await expect(new Workers(manager).saveGroup(members, { groupId })).rejects.toMatchObject({ code: 'STORAGE' });
    expect(await storage.readRefs({ kind: 'pin' })).toHaveLength(1);
    expect(await storage.readRefs({ kind: 'group' })).toEqual([]);
    expect(await new Workers(manager).saveGroup(members, { groupId })).toMatchObject({ parentId: group.id });
    await manager.close();
  });
});

test.each<[string, (world: { session: Session; agent: object }) => unknown, RegExp]>([
  ['a state without its session', () => [{ name: 'a', state: { v: 1 } }], /"a".* has state\. Pass/],
  ['nothing', () => [{ name: 'a' }], /member "a".* has nothing to save\. Pass/],
  ['an agent that is null', () => [{ name: 'a', agent: null }], /"agent" of member "a".*found null/],
  ['a mistyped key', ({ agent }) => [{ name: 'a', agent, recieved: { b: 1 } }], /"recieved".*did you mean "received"/],
  ['mistyped options', ({ agent }) => [{ name: 'a', agent, optoins: {} }], /"optoins".*did you mean "options"/],
  ['an unknown option', ({ agent }) => [{ name: 'a', agent, options: { stauts: 'x' } }], /"stauts".*"status"/],
  ['a mistyped count', ({ agent }) => [{ name: 'a', agent, sent: { b: { cuont: 1 } } }], /"cuont".*"count"/],
  ['a negative number', ({ agent }) => [{ name: 'a', agent, received: { b: -1 } }], /received\["b"\]/],
  ['null', () => [null], /\[1\] must be a name, or an object.*found null/],
  ['a list', () => [[]], /\[1\] must be a name, or an object.*found a list/],
  ['a session that is none', () => [{ name: 'a', session: 'zz', state: 1 }], /must be a session.*found "zz"/],
  [
    'an agent and a session',
    ({ agent, session }) => [{ name: 'a', agent, session, state: 1 }],
    /has agent, session, state\. Pass/,
  ],
  ['an agent and a state', ({ agent }) => [{ name: 'a', agent, state: 1 }], /has agent, state\. Pass/],
  [
    'a session twice',
    ({ session }) => [{ name: 'a', session, sessionId: 'b', state: 1 }],
    /has session, sessionId, state\. Pass/,
  ],
  ['a session without a state', ({ session }) => [{ name: 'a', session }], /has session\. Pass/],
  ['one agent twice', ({ agent }) => ['a', 'b'].map((name) => ({ name, agent })), /"a" and "b" are one object/],
  [
    'one session twice',
    ({ session }) => ['a', 'b'].map((name) => ({ name, session, state: 1 })),
    /"a" and "b" are one object/,
  ],
])('[input.1] a group member that is %s is refused before anything is saved', async (_, give, message) => {
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  const given = give({ session: await manager.session('s'), agent: { v: 1 } }) as GroupMember[];
  const good = { name: 'good', agent: { v: 2 } };
  await expect(new Workers(manager).saveGroup([good, ...given], { groupId })).rejects.toMatchObject({
    code: 'INVALID_INPUT',
    message: expect.stringMatching(message),
  });
  expect(await manager.stats()).toMatchObject({ checkpoints: 0 });
});

test('[group.3] with the session of something else for a group, nothing is saved of the members', async () => {
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  await manager.save({ lines: [] }, { sessionId: 'chat' });
  const opened = await manager.session('notes');
  await opened.save({ n: 0 });
  const members: GroupMember[] = [
    { name: 'one', agent: { n: 1 }, sessionId: 'one' },
    { name: 'notes', session: opened, state: { n: 1 } },
  ];
  await expect(new Workers(manager).saveGroup(members, { groupId: 'chat' })).rejects.toMatchObject({
    code: 'INVALID_INPUT',
    message: expect.stringContaining('Session "chat" is not a group'),
  });
  expect((await manager.list()).checkpoints.map(({ sessionId }) => sessionId).toSorted()).toEqual(['chat', 'notes']);
  expect(opened.state).toEqual({ n: 0 });
  expect(await manager.load(await opened.save({ n: 2 }))).toEqual({ n: 2 });
  await new Workers(manager).saveGroup(members, { groupId });
  await manager.close();
});

test('[group.2] migrations are for the members, not for the record of the group', async () => {
  const storage = new InMemoryCheckpointStorage();
  const old = new CheckpointManager({ storage, schemaVersion: 1 });
  const members = [
    { name: 'one', agent: { n: 1 }, sessionId: 'one', sent: { two: { count: 1, unconfirmed: ['hello'] } } },
    { name: 'two', agent: { n: 2 }, sessionId: 'two' },
  ];
  const group = await new Workers(old).saveGroup(members, { groupId });
  const migrations = [{ from: 1, migrate: (state: unknown) => ({ ...(state as object), isNew: true }) }];
  const manager = new CheckpointManager({ storage, schemaVersion: 2, migrations });
  expect(await manager.load(group.id)).not.toHaveProperty('isNew');
  const { members: back } = await new Workers(manager).restoreGroup(group.id);
  expect(back.get('two')).toMatchObject({ state: { n: 2, isNew: true }, inFlight: [{ message: 'hello' }] });
});

test('[group.4] secrets under a name stay out of messages too, and names of members may be any text', async () => {
  const storage = new InMemoryCheckpointStorage();
  const manager = new CheckpointManager({ storage });
  const sent = JSON.parse('{"__proto__": {"count": 1, "unconfirmed": [{"apiKey": "p4ssw0rd-of-mine"}]}}');
  const group = await new Workers(manager).saveGroup(
    [
      { name: 'constructor', agent: { n: 1 }, sessionId: 'sk-session', sent },
      { name: '__proto__', agent: { n: 2 }, sessionId: 'b' },
    ],
    { groupId },
  );
  const { members } = await new Workers(manager).restoreGroup(group.id, { into: {} });
  const [message] = members.get('__proto__')?.inFlight ?? [];
  expect(message).toMatchObject({ from: 'constructor', number: 1, message: { apiKey: expect.any(SecretRef) } });
});

test('[group.7] group checkpoints that a user has a part in are forgotten with the user', async () => {
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  const ofUser = (userId: string) => ({ name: userId, agent: { userId }, sessionId: userId });
  const other = await new Workers(manager).saveGroup([ofUser('u2')], { groupId: 'shared' });
  expect(other.userId).toBe('u2');
  const own = await new Workers(manager).saveGroup([ofUser('u1')], { groupId: 'own' });
  const shared = await new Workers(manager).saveGroup([ofUser('u1'), ofUser('u2')], { groupId: 'shared' });
  expect(shared.userId).toBeUndefined();
  expect(await manager.clearUserHistory('u1')).toBe(4);
  expect([await manager.get(own.id), await manager.get(shared.id)]).toEqual([undefined, undefined]);
  expect(await new Workers(manager).saveGroup([ofUser('u2')], { groupId: 'shared' })).toMatchObject({
    parentId: other.id,
  });
  expect(await manager.verify()).toMatchObject({ status: 'clean' });
});

test.each(['{"a":1}', '5', '{"members":[{}],"inFlight":[]}'])(
  '[group.6] a group checkpoint with the state %s is damage, and says so',
  async (text) => {
    const storage = new InMemoryCheckpointStorage();
    const manager = new CheckpointManager({ storage });
    const root = createChunk({ text, refs: [] });
    const id = 'chk_01kq00000000000000000a' as CheckpointId;
    const sessionId = groupId as SessionId;
    const place = { id, sessionId, branch: 'main', sequence: 1, type: 'group', timestampMs: 1 };
    const header = { ...place, stateDigest: root.digest, stateBytes: 9 };
    const body = JSON.stringify(header);
    await storage.commit({ sessionId, checkpoint: { header, body, digest: digestText(body), root } });
    await expect(new Workers(manager).restoreGroup(id)).rejects.toMatchObject({
      code: 'CORRUPT',
      message: expect.stringContaining('another state than groups have'),
    });
  },
);
