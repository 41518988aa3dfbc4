import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { HOUR, type Life, World } from '../../../test/loop/world.ts';
import { LATER } from '../../../test/support/later.ts';
import { temporaryFolder } from '../../../test/support/storages.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { Memory } from '../../memory/memory.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { AgentLoop, type LoopAgent, type LoopAgentState } from './index.ts';

/** Remembers its messages, and drifts for ever on those that say so. */
const clerk = (): LoopAgent => ({
  tools: { charge: { run: () => 'charged' } },
  async handle({ id, body }, turn) {
    if (body === 'charge') await turn.call('charge', { id });
    if (body === 'fail') throw new Error('no');
    turn.state.context.decisions.push(id);
    turn.state.memory.shortTerm.last = id;
  },
});

async function deliver(life: Life, ...ids: readonly string[]): Promise<void> {
  for (const id of ids) expect(await life.loop.deliver({ id, body: id.split(' ')[0] })).toBe(true);
}

/** Handles two messages, with a checkpoint after the first; returns its id. */
async function live(world: World): Promise<{ readonly life: Life; readonly first: string }> {
  const life = await world.start({ createAgent: clerk });
  await deliver(life, 'm1');
  await world.clock.pass(HOUR);
  const first = (await world.history({ type: 'routine' })).at(-1)?.id ?? '';
  await deliver(life, 'm2');
  await world.clock.pass(1000);
  return { life, first };
}

const restoredBy = (life: Life) => life.events.flatMap((event) => (event.kind === 'restored' ? [event] : []));

const mailOf = ({ mailbox: { pending, recentIds } }: LoopAgentState) => ({
  pending: pending.map(({ id }) => id),
  handled: recentIds,
});

test('[loop.31] long-term memory goes back with a rewind, and stays when restoreFrom goes on in the same branch', async () => {
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  const memory = new Memory({ manager, path: join(temporaryFolder(), 'history.db') });
  const scope = { userId: 'ann', session: { id: 'clerk-1' } };
  const createAgent = (): LoopAgent => ({
    async handle({ body }, turn) {
      await turn.step('learn', () => memory.add(String(body), { ...scope, infer: false }));
    },
  });
  const handle = async (bodies: readonly string[], restoreFrom?: string) => {
    const from = restoreFrom === undefined ? {} : { restoreFrom };
    const loop = await AgentLoop.open({ manager, agentId: 'clerk-1', createAgent, ...from });
    const run = loop.run();
    let last = '';
    for (const body of bodies) {
      const done = new Promise<void>((resolve) => void loop.on(({ kind }) => kind === 'turn' && resolve()));
      await loop.deliver({ id: body, body });
      await done;
      last = await manager.save(loop, { type: 'manual' });
    }
    await loop.stop();
    await run;
    return last;
  };
  const known = async () => (await memory.getAll(scope)).map((one) => one.memory);
  const good = await handle(['one']);
  await handle(['two']);
  await handle(['three'], good);
  expect(await known()).toEqual(['one', 'two', 'three']);
  await memory.rewind(good);
  expect(await known()).toEqual(['one']);
  await handle(['four']);
  expect(await known()).toEqual(['one', 'four']);
  await memory.close();
  await manager.close();
});

describe('restoreFrom', () => {
  test('[loop.31] brings back task, context and memory, and keeps the mail; says so to the agent and to people', async () => {
    const world = new World();
    const { life, first } = await live(world);
    await life.loop.stop();
    const again = await world.start({ createAgent: clerk, restoreFrom: first });
    await world.clock.settle();
    const { context, memory } = again.loop.state;
    expect(context.decisions).toEqual(['m1']);
    expect(memory.shortTerm).toEqual({ last: 'm1' });
    expect(context.notes).toMatchObject([{ kind: 'restored', restoredFrom: first, handledSince: ['m2'] }]);
    expect(context.notes[0]?.text).toContain('Handled since, and not handled again: m2.');
    expect(mailOf(again.loop.state)).toEqual({ pending: [], handled: ['m1', 'm2'] });
    expect(restoredBy(again)).toMatchObject([
      { from: first, report: { status: 'complete' }, note: context.notes[0]?.text },
    ]);
    expect((await world.history()).at(-1)).toMatchObject({ trigger: 'restored', metadata: { restoredFrom: first } });
    await deliver(again, 'm3');
    await world.clock.pass(1000);
    expect(again.loop.state.context.decisions).toEqual(['m1', 'm3']);
    await again.loop.stop();
  });

  test('[loop.31] an escalated agent goes on, with what was accepted while it waited', async () => {
    const world = new World();
    const { life, first } = await live(world);
    await life.loop.stop();
    await world.look().tag(first, 'good');
    const drift = { watch: watchThat(() => 'drifting') };
    const lost = await world.start({ createAgent: clerk, drift, settings: { maxRestoresPerDay: 1 } });
    for (const id of ['m3', 'm4']) {
      await deliver(lost, id);
      await world.clock.pass(HOUR / 4);
    }
    expect(lost.loop.status).toBe('escalated');
    await deliver(lost, 'm5');
    await lost.loop.stop();
    const again = await world.start({ createAgent: clerk, restoreFrom: first.slice(0, 20) });
    await world.clock.pass(1000);
    expect(again.loop.status).toBe('running');
    expect(mailOf(again.loop.state)).toEqual({ pending: [], handled: ['m1', 'm2', 'm3', 'm4', 'm5'] });
    await again.loop.stop();
  });

  test('[loop.31] a checkpoint that is not there, or of another session, is refused, and nothing is left open', async () => {
    const world = new World();
    const { life, first } = await live(world);
    await life.loop.stop();
    const lease = { ttlMs: HOUR };
    const refused = (agentId: string, restoreFrom: string) =>
      world.start({ agentId, createAgent: clerk, restoreFrom, lease }, { run: false });
    await expect(refused('agent-2', first)).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    await expect(refused('agent-1', 'chk_0')).rejects.toMatchObject({ code: 'NOT_FOUND' });
    await expect(refused('agent-1', '')).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    await (await world.start({ createAgent: clerk, lease }, { run: false })).loop.stop();
  });

  test(
    '[loop.31] killed at any commit, it is restored when it is asked for again, and every message is handled once',
    LATER,
    async () => {
      for (let dieAt = 1; dieAt <= 6; dieAt += 0.5) {
        const world = new World();
        const { life, first } = await live(world);
        life.die();
        const killed = await world.open(dieAt, { createAgent: clerk, restoreFrom: first });
        await world.clock.pass(1000);
        killed?.die();
        const again = await world.start({ createAgent: clerk, restoreFrom: first });
        await deliver(again, 'm3');
        await world.clock.pass(1000);
        expect(again.loop.state.context.decisions).toEqual(['m1', 'm3']);
        expect(mailOf(again.loop.state)).toEqual({ pending: [], handled: ['m1', 'm2', 'm3'] });
        await again.loop.stop();
      }
    },
  );
});

describe('a rewind', () => {
  test('[loop.31] does not lose mail that was accepted, in checkpoints or since, nor handle any twice', async () => {
    const world = new World();
    const { life, first } = await live(world);
    await world.clock.pass(HOUR); // saved: m2 is handled in a checkpoint
    await deliver(life, 'm3');
    await world.clock.pass(1000); // handled, and only recorded
    life.die();
    const waiting = await world.start({ createAgent: clerk }, { run: false });
    await deliver(waiting, 'm4'); // accepted, and only recorded
    waiting.die();
    await world.look().rewind(first);
    const again = await world.start({ createAgent: clerk });
    await world.clock.pass(1000);
    expect(again.loop.state.context.decisions).toEqual(['m1', 'm4']);
    expect(mailOf(again.loop.state)).toEqual({ pending: [], handled: ['m1', 'm2', 'm3', 'm4'] });
    expect(restoredBy(again)).toMatchObject([{ from: first, note: expect.stringContaining('m2, m3') }]);
    await again.loop.stop();
    const later = await world.start({ createAgent: clerk });
    await world.clock.pass(1000);
    expect(restoredBy(later)).toEqual([]);
    await later.loop.stop();
  });

  test('[loop.31] of a rewind knows what the branch that was rewound last accepted', async () => {
    const world = new World();
    const { life, first } = await live(world);
    await life.loop.stop();
    for (const id of ['m3', 'm4']) {
      await world.look().rewind(first);
      const next = await world.start({ createAgent: clerk });
      await deliver(next, id);
      await world.clock.pass(1000);
      expect(next.loop.state.context.decisions).toEqual(['m1', id]);
      await next.loop.stop();
    }
    const { state } = (await world.start({ createAgent: clerk }, { run: false })).loop;
    expect(mailOf(state).handled).toEqual(['m1', 'm2', 'm3', 'm4']);
  });

  test('[loop.31] a message that may be handled once, and was under way, is set aside', async () => {
    const world = new World();
    let isStuck = true;
    const createAgent = (): LoopAgent => ({ handle: () => (isStuck ? new Promise(() => undefined) : undefined) });
    const life = await world.start({ createAgent });
    await world.clock.settle();
    const start = (await world.history())[0]?.id ?? '';
    await life.loop.deliver({ id: 'once', body: 1, delivery: 'at-most-once' });
    await world.clock.settle();
    life.die();
    isStuck = false;
    await world.look().rewind(start);
    const again = await world.start({ createAgent });
    await world.clock.pass(1000);
    expect(again.loop.state.mailbox.setAside).toMatchObject([
      { message: { id: 'once' }, error: { name: 'Interrupted' } },
    ]);
    await again.loop.stop();
  });
});

function watchThat(status: () => 'healthy' | 'drifting') {
  const read = () => ({ status: status(), score: 1, signals: [], summary: 'It is lost.' });
  return {
    observe: read,
    assess: async () => read(),
    snapshot: () => null,
    restore: () => undefined,
    reset: () => undefined,
  };
}
