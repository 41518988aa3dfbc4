import { expect, test } from 'vitest';
import { MINUTE, World } from '../../../../test/loop/world.ts';
import type { DriftReading, DriftWatch, LoopAgent } from '../index.ts';

const HEALTHY: DriftReading = { status: 'healthy', score: 0, signals: [], summary: '' };
const SUSPECT: DriftReading = { ...HEALTHY, status: 'suspect', score: 0.7 };

const fine: DriftWatch = {
  observe: () => HEALTHY,
  assess: async () => HEALTHY,
  snapshot: () => null,
  restore: () => undefined,
  reset: () => undefined,
};

const fail = (): never => {
  throw new Error('the watch broke');
};

const caller = (): LoopAgent => ({
  tools: { look: { run: () => 1 } },
  async handle({ id }, turn) {
    await turn.call('look', id);
    turn.state.context.decisions.push(id);
  },
});

/** Two messages, checkpoints and, after 2 hours, a refresh with this watch. */
async function watched(part: Partial<DriftWatch>, restMinutes = 65) {
  const world = new World();
  const life = await world.start({ createAgent: caller, drift: { watch: { ...fine, ...part } } });
  for (const id of ['m1', 'm2']) {
    await life.loop.deliver({ id, body: null });
    await world.clock.pass(restMinutes * MINUTE);
  }
  expect(life.loop.status).toBe('running');
  expect(life.loop.state.context.decisions).toEqual(['m1', 'm2']);
  const failures = life.events.flatMap((event) => (event.kind === 'watch_failed' ? [event.error.message] : []));
  return { world, life, failures };
}

test.each([
  ['observe', { observe: fail }, 'observe: the watch broke'],
  ['assess', { assess: fail }, 'assess: the watch broke'],
  ['a rejected assess', { assess: async () => fail() }, 'assess: the watch broke'],
  ['reset', { reset: fail }, 'reset: the watch broke'],
])('[loop.29] a watch whose %s fails is told of once, and the agent goes on', async (_, part, message) => {
  expect((await watched(part)).failures).toEqual([message]);
});

test('[loop.29] nor does one that answers no reading end anything', async () => {
  const nonsense = () => undefined as unknown as DriftReading;
  expect((await watched({ observe: nonsense })).failures).toEqual([expect.stringContaining('observe')]);
  expect((await watched({ assess: async () => nonsense() })).failures).toEqual([expect.stringContaining('assess')]);
});

test('[loop.29] a watch that cannot go on from what was saved is told of when the loop runs, and its last reading holds', async () => {
  const suspecting = { observe: () => SUSPECT, assess: async () => SUSPECT, snapshot: () => ({ n: 1 }) };
  const { world, life } = await watched(suspecting, 1);
  await life.loop.stop();
  const watch = { ...fine, ...suspecting, restore: fail };
  const { events } = await world.start({ createAgent: caller, drift: { watch } });
  await world.clock.pass(MINUTE);
  expect(events.slice(0, 2)).toMatchObject([
    { kind: 'watch_failed', error: { message: 'restore: the watch broke' } },
    { kind: 'started' },
  ]);
});

test('[loop.29] the last reading holds', async () => {
  let isBroken = false;
  const read = () => (isBroken ? fail() : SUSPECT);
  const { world, life, failures } = await watched({ observe: read, assess: async () => read() }, 31);
  expect(failures).toEqual([]);
  isBroken = true;
  await life.loop.deliver({ id: 'm3', body: null });
  await world.clock.pass(35 * MINUTE);
  expect((await world.history({ type: 'routine' })).at(-1)?.metadata).toMatchObject({ health: 'suspect' });
  expect(life.loop.state.context.decisions).toEqual(['m1', 'm2', 'm3']);
});

test('[loop.29] also over a restart', async () => {
  const world = new World();
  const suspicious = { ...fine, observe: () => SUSPECT, assess: async () => SUSPECT };
  const first = await world.start({ createAgent: caller, drift: { watch: suspicious } });
  await first.loop.deliver({ id: 'm1', body: null });
  await world.clock.pass(31 * MINUTE);
  first.die();
  const second = await world.start({ createAgent: caller, drift: { watch: { ...fine, observe: fail, assess: fail } } });
  await second.loop.deliver({ id: 'm2', body: null });
  await world.clock.pass(31 * MINUTE);
  expect((await world.history()).map(({ metadata }) => metadata?.health)).toEqual(['healthy', 'suspect', 'suspect']);
});

test('[loop.29] what a watch remembers and cannot be stored is left out of the checkpoint', async () => {
  const suspicious = { observe: () => SUSPECT, assess: async () => SUSPECT };
  const withHoles = () => Object.assign([], { length: 3 });
  for (const snapshot of [fail, () => ({ callback: () => 1 }), () => new WeakMap(), withHoles]) {
    const { world, life, failures } = await watched({ ...suspicious, snapshot }, 31);
    expect(failures.length).toBeGreaterThan(0);
    expect((await world.history({ type: 'routine' })).at(-1)?.metadata).toMatchObject({ health: 'suspect' });
    expect(life.kinds()).not.toContain('checkpoint_failed');
  }
});

test('[loop.29] events that cannot be copied are no obstacle to a checkpoint, with a judge that will see them', async () => {
  const world = new World();
  const createAgent = (): LoopAgent => ({
    tools: { look: { run: () => 'nothing has changed here' } },
    async handle(_, turn) {
      const event = { kind: 'message', text: 'I think', raw: { toJSON: () => 1, callback: () => 1 } } as const;
      turn.observe(event);
      await turn.call('look', 1);
      await turn.call('look', 1);
    },
  });
  const judge = async () => ({ unproductive: 0.5 });
  const life = await world.start({ createAgent, drift: { judge, alarmNats: 4 } });
  await life.loop.deliver({ id: 'm1', body: null });
  await world.clock.pass(31 * MINUTE);
  expect(life.loop.status).toBe('running');
  expect((await world.history()).at(-1)).toMatchObject({ trigger: 'schedule', metadata: { health: 'suspect' } });
});

test('[loop.29] a watch that cannot take over what it is handed begins anew, whatever it throws', async () => {
  const world = new World();
  const suspicious = { ...fine, observe: () => SUSPECT, assess: async () => SUSPECT, snapshot: () => ({ seen: 1 }) };
  const first = await world.start({ createAgent: caller, drift: { watch: suspicious } });
  await first.loop.deliver({ id: 'm1', body: null });
  await world.clock.pass(31 * MINUTE);
  first.die();
  let resets = 0;
  const restore = () => {
    throw new TypeError('not iterable');
  };
  const reset = () => void resets++;
  const second = await world.start({ createAgent: caller, drift: { watch: { ...fine, restore, reset } } });
  expect(resets).toBe(1);
  await second.loop.deliver({ id: 'm2', body: null });
  await world.clock.settle();
  expect(second.loop.state.context.decisions).toEqual(['m1', 'm2']);
});
