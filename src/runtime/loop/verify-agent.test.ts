import { expect, test } from 'vitest';
import { HOUR, MINUTE, World } from '../../../test/loop/world.ts';
import { LATER } from '../../../test/support/later.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { faultyStorage } from '../../testing/index.ts';
import { type LoopAgent, verifyAgent } from './index.ts';

const agent = (): LoopAgent => ({
  handle({ id }, { state }) {
    state.context.decisions.push(id);
  },
});

async function lived(agentId = 'agent-1') {
  const world = new World();
  const life = await world.start({ createAgent: agent, agentId });
  await life.loop.deliver({ id: 'm1', body: null });
  await world.clock.pass(5 * HOUR);
  await life.loop.stop();
  return world;
}

const statuses = ({ checks }: Awaited<ReturnType<typeof verifyAgent>>) =>
  Object.fromEntries(checks.map(({ name, status }) => [name, status]));

test('[loop.25] an agent that is well passes; the report is plain data', async () => {
  const world = await lived();
  const report = await verifyAgent(world.look(), 'agent-1', { createAgent: agent });
  expect(report.status).toBe('passed');
  expect(statuses(report)).toEqual({
    presence: 'passed',
    fields: 'passed',
    integrity: 'passed',
    restore: 'passed',
  });
  expect(report.checkpoints).toEqual({ total: 5, byType: { routine: 3, recovery: 2 } });
  expect(JSON.parse(JSON.stringify(report))).toEqual(report);
});

test('[loop.25] an agent at its task passes also without its code', LATER, async () => {
  const world = new World();
  const task = { id: 't', status: 'active', progress: 0 } as const;
  const life = await world.start({ createAgent: () => ({ ...agent(), work: () => undefined }), initial: { task } });
  await world.clock.pass(5 * HOUR);
  await life.loop.stop();
  expect(await verifyAgent(world.look(), 'agent-1')).toMatchObject({ status: 'passed' });
});

test('[loop.25] only exactly this agent is looked at', async () => {
  const world = await lived('agent-10');
  const report = await verifyAgent(world.look(), 'agent-1');
  expect(report).toMatchObject({ status: 'failed', checkpoints: { total: 0 }, newest: null });
  expect(report.checks[0]).toMatchObject({ status: 'failed', findings: ['There is no routine checkpoint.'] });
});

test('[loop.25] a restore that loses something is found, as are damaged bytes and missing fields', async () => {
  const storage = new InMemoryCheckpointStorage();
  const world = new World(storage);
  const life = await world.start({ createAgent: agent });
  await life.loop.deliver({ id: 'm1', body: null });
  await world.clock.pass(35 * MINUTE);
  await life.loop.stop();
  const forgetful = (): LoopAgent => ({
    sections: { context: { collect: (context) => ({ ...context, decisions: [] }) } },
    handle: () => undefined,
  });
  const lossy = await verifyAgent(world.look(), 'agent-1', { createAgent: forgetful });
  expect(statuses(lossy)).toMatchObject({ restore: 'failed', integrity: 'passed' });
  expect(lossy.checks[3]?.findings.length).toBe(2); // the first checkpoint is from before m1

  const [newest] = (await world.history()).slice(-1);
  const damaged = faultyStorage(storage, { alteredRoots: newest === undefined ? [] : [newest.id] });
  const report = await verifyAgent(new CheckpointManager({ storage: damaged }), 'agent-1');
  expect(statuses(report)).toMatchObject({
    presence: 'passed',
    integrity: 'failed',
    fields: 'failed',
    restore: 'failed',
  });
  expect(report.checks.find(({ name }) => name === 'integrity')?.findings).toContain(`${newest?.id} is damaged.`);
});

test('[loop.25] a question that means nothing is not answered', async () => {
  const world = await lived();
  const nothing = undefined as unknown as string;
  await expect(verifyAgent(world.look(), nothing)).rejects.toMatchObject({ code: 'INVALID_INPUT' });
  for (const options of [{ toleranceMs: 5 } as object, { createAgent: 5 as unknown as () => LoopAgent }])
    await expect(verifyAgent(world.look(), 'agent-1', options)).rejects.toMatchObject({ code: 'INVALID_INPUT' });
});

test('[loop.25] a hook that fails in the scratch agent is found, not thrown', async () => {
  const world = await lived();
  const createAgent = (): LoopAgent => ({
    sections: {
      memory: {
        collect: () => {
          throw new Error('no disk here');
        },
      },
    },
    handle: () => undefined,
  });
  const { checks } = await verifyAgent(world.look(), 'agent-1', { createAgent });
  expect(checks.find(({ name }) => name === 'restore')?.findings[0]).toContain('no disk here');
});
