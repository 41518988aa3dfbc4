import { expect, test } from 'vitest';
import { HOUR, World } from '../../../test/loop/world.ts';
import { Workers } from '../../manager/workers/workers.ts';
import type { LoopAgent } from './index.ts';

const createAgent = (): LoopAgent => ({
  handle: ({ id }, { state }) => void state.context.decisions.push(id),
});

async function team() {
  const world = new World();
  const lives = [await world.start({ agentId: 'a', createAgent }), await world.start({ agentId: 'b', createAgent })];
  const [a, b] = lives.map(({ loop }) => loop);
  if (a === undefined || b === undefined) throw new Error('There are two.');
  const tell = async (id: string) => {
    for (const loop of [a, b]) await loop.deliver({ id, body: 1 });
    await world.clock.pass(1000);
  };
  const manager = world.look();
  const members = [
    { name: 'a', agent: a },
    { name: 'b', agent: b },
  ];
  return { world, loops: [a, b], tell, manager, members };
}

test('[loop.11] loops are saved as members of a cut, in their own sessions, and go on', async () => {
  const { world, loops, tell, manager, members } = await team();
  await tell('m1');
  const group = await new Workers(manager).saveGroup(members, { groupId: 'team' });
  await tell('m2');
  await world.clock.pass(HOUR);
  for (const loop of loops) {
    expect(loop.state.context.decisions).toEqual(['m1', 'm2']);
    await loop.stop();
  }
  const { members: restored } = await new Workers(manager).restoreGroup(group.id);
  for (const name of ['a', 'b']) {
    const { checkpoint, state } = restored.get(name) ?? {};
    expect(checkpoint).toMatchObject({
      sessionId: name,
      agentId: name,
      type: 'group_member',
      metadata: { health: 'healthy' },
    });
    expect(state).toMatchObject({ context: { decisions: ['m1'] }, mailbox: { recentIds: ['m1'] } });
  }
});

test('[loop.11] the loops of a group come back together, each by restoreFrom, and keep their mail', async () => {
  const { world, loops, tell, manager, members } = await team();
  await tell('m1');
  const group = await new Workers(manager).saveGroup(members, { groupId: 'team' });
  await tell('m2');
  for (const loop of loops) await loop.stop();
  for (const [agentId, { checkpoint }] of (await new Workers(manager).restoreGroup(group.id)).members) {
    const { loop } = await world.start({ agentId, createAgent, restoreFrom: checkpoint.id });
    await loop.deliver({ id: 'm3', body: 1 });
    await world.clock.pass(1000);
    expect(loop.state.context.decisions).toEqual(['m1', 'm3']);
    expect(loop.state.mailbox.recentIds).toEqual(['m1', 'm2', 'm3']);
    await loop.stop();
  }
});

test('[loop.11] a loop is saved by the manager as by itself; another session, a restore into it and an ended one are refused', async () => {
  const { loops, tell, manager, members } = await team();
  const [loop] = loops;
  await tell('m1');
  const id = await manager.save(loop, { type: 'manual', metadata: { why: 'before the holidays' } });
  expect(await manager.open(id)).toMatchObject({
    sessionId: 'a',
    type: 'manual',
    metadata: { health: 'healthy', why: 'before the holidays' },
  });
  await tell('m2');
  expect(loop?.state.context.decisions).toEqual(['m1', 'm2']);
  await expect(manager.save(loop, { sessionId: 'other' })).rejects.toMatchObject({ code: 'INVALID_INPUT' });
  await expect(manager.restore(id, { into: loop ?? {} })).rejects.toThrow('restoreFrom');
  await loop?.stop();
  await expect(new Workers(manager).saveGroup(members, { groupId: 'team' })).rejects.toMatchObject({ code: 'CLOSED' });
});

test('[loop.11] an agent in the middle of a turn is saved with what it has done', async () => {
  const world = new World();
  let go: (value: unknown) => void = () => undefined;
  const busy = (): LoopAgent => ({
    tools: { pay: { run: () => 'paid' } },
    async handle(_, turn) {
      await turn.call('pay', { order: 17 });
      await new Promise((resolve) => {
        go = resolve;
      });
    },
  });
  const { loop } = await world.start({ agentId: 'a', createAgent: busy });
  await loop.deliver({ id: 'm1', body: 1 });
  await world.clock.pass(1000);
  const manager = world.look();
  const group = await new Workers(manager).saveGroup([{ name: 'a', agent: loop }], { groupId: 'team' });
  go(undefined);
  await world.clock.pass(1000);
  expect(loop.state.mailbox.recentIds).toEqual(['m1']);
  await loop.stop();
  const { members } = await new Workers(manager).restoreGroup(group.id);
  expect(members.get('a')?.state).toMatchObject({ loop: { works: [{ done: [{ name: 'pay', result: 'paid' }] }] } });
});
