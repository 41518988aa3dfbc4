import { expect, test } from 'vitest';
import { type Life, MINUTE, World } from '../../../test/loop/world.ts';
import type { LoopAgent, LoopTool } from './index.ts';
import type { SectionsReport } from './state/sections.ts';
import type { OperationOutcome } from './turn/operation.ts';
import { verifyAgent } from './verify-agent.ts';

const API_KEY = 'sk_live_51Hq8Zk2Lm9Pq4Rt7';

/** Takes messages in, in a process that ends before it handles any; what later ones handle is kept. */
async function afterRestart(...bodies: readonly unknown[]) {
  const world = new World();
  const handled: unknown[] = [];
  const createAgent = (): LoopAgent => ({ handle: ({ body }) => void handled.push(body) });
  const first = await world.start({ createAgent }, { run: false });
  for (const [at, body] of bodies.entries()) await first.loop.deliver({ id: `m${at + 1}`, body });
  first.die();
  return { world, handled, createAgent };
}

test('[loop.32] a message whose secret was not stored is set aside, and the report names the place', async () => {
  const { world, handled, createAgent } = await afterRestart({ apiKey: API_KEY }, 'plain');
  const { loop, events } = await world.start({ createAgent });
  await world.clock.pass(MINUTE);
  expect(handled).toEqual(['plain']);
  const [aside] = loop.state.mailbox.setAside;
  expect(aside).toMatchObject({ message: { id: 'm1' }, error: { name: 'SecretLeftOutError' } });
  expect(aside?.error.message).toMatch(/\$\.apiKey of the body.*Deliver it again/);
  const started = events.find(({ kind }) => kind === 'started') as { readonly report?: SectionsReport } | undefined;
  const mailbox = started?.report?.sections.find(({ section }) => section === 'mailbox');
  expect(mailbox).toMatchObject({ status: 'partial', problems: [{ path: '$.mailbox.pending[0].body.apiKey' }] });
});

test('[loop.32] delivered again with its secret it is handled: while it waits, or once it is taken back', async () => {
  const { world, handled, createAgent } = await afterRestart({ apiKey: API_KEY }, { apiKey: API_KEY, n: 2 });
  const { loop } = await world.start({ createAgent }, { run: false });
  expect(await loop.deliver({ id: 'm1', body: { apiKey: API_KEY } })).toBe(false);
  void loop.run();
  await world.clock.pass(MINUTE);
  expect(handled).toEqual([{ apiKey: API_KEY }]);
  await loop.deliver({ id: 'm2', body: { apiKey: API_KEY, n: 2 } });
  await loop.resume({ retry: ['m2'] });
  await world.clock.pass(MINUTE);
  expect(handled).toEqual([{ apiKey: API_KEY }, { apiKey: API_KEY, n: 2 }]);
});

test('[loop.5] a second message with the id of one that waits or is set aside, and another body, is refused', async () => {
  const { world, createAgent } = await afterRestart({ apiKey: API_KEY, n: 1 });
  const { loop } = await world.start({ createAgent }, { run: false });
  const refused = { code: 'INVALID_INPUT', message: expect.stringContaining('with another body') };
  await expect(loop.deliver({ id: 'm1', body: { apiKey: API_KEY, n: 2 } })).rejects.toMatchObject(refused);
  const arriving = loop.deliver({ id: 'new', body: { apiKey: API_KEY } });
  await expect(loop.deliver({ id: 'new', body: { apiKey: `${API_KEY}x` } })).rejects.toMatchObject(refused);
  expect(await arriving).toBe(true);
  expect(await loop.deliver({ id: 'new', body: { apiKey: API_KEY } })).toBe(false);
  void loop.run();
  await world.clock.pass(MINUTE);
  await expect(loop.deliver({ id: 'm1', body: 'other' })).rejects.toMatchObject(refused);
  expect(loop.state.mailbox.recentIds).toEqual(['new']);
  await expect(loop.deliver({ id: 'new', body: 'other' })).rejects.toMatchObject(refused);
});

test('[loop.32] nor is one handled whose secret stood inside a longer string; what only looks like one is', async () => {
  const { world, handled, createAgent } = await afterRestart(
    { mail: [`Use ${API_KEY} to pay.`] },
    'They call it [secret jwt].',
  );
  const { loop } = await world.start({ createAgent });
  await world.clock.pass(MINUTE);
  expect(handled).toEqual(['They call it [secret jwt].']);
  const [aside] = loop.state.mailbox.setAside;
  expect(aside).toMatchObject({ message: { id: 'm1' }, error: { name: 'SecretLeftOutError' } });
  expect(aside?.error.message).toMatch(/\$\.mail\[0\] of the body.*Deliver it again/);
  expect(await loop.deliver({ id: 'm1', body: { mail: [`Use ${API_KEY} to pay.`] } })).toBe(false);
  await loop.resume({ retry: ['m1'] });
  await world.clock.pass(MINUTE);
  expect(handled.at(-1)).toEqual({ mail: [`Use ${API_KEY} to pay.`] });
});

test('[loop.5] a second message with the id of a handled one and another body is refused, also after a restart', async () => {
  const world = new World();
  const createAgent = (): LoopAgent => ({ handle: () => undefined });
  const refused = { code: 'INVALID_INPUT', message: expect.stringContaining('with another body') };
  const expectKnown = async ({ loop }: Life) => {
    await expect(loop.deliver({ id: 'm1', body: 'two' })).rejects.toMatchObject(refused);
    expect(await loop.deliver({ id: 'm1', body: 'one' })).toBe(false);
    await expect(loop.deliver({ id: 'm2', body: { apiKey: `${API_KEY}x` } })).rejects.toMatchObject(refused);
    expect(await loop.deliver({ id: 'm2', body: { apiKey: API_KEY } })).toBe(false);
  };
  const first = await world.start({ createAgent });
  await first.loop.deliver({ id: 'm1', body: 'one' });
  await first.loop.deliver({ id: 'm2', body: { apiKey: API_KEY } });
  await world.clock.pass(MINUTE);
  await expectKnown(first);
  first.die();
  const second = await world.start({ createAgent });
  await world.clock.settle();
  await expectKnown(second);
  await second.loop.stop(); // and from a checkpoint
  const third = await world.start({ createAgent });
  await world.clock.settle();
  await expectKnown(third);
});

test('[loop.32] a call whose recorded input lost a secret is not undone, and reported so', async () => {
  const world = new World();
  const undone: unknown[] = [];
  const outcomes: OperationOutcome<unknown>[] = [];
  const agentWith = (undo: LoopTool['undo']) => (): LoopAgent => ({
    tools: {
      login: { run: () => 'in', ...(undo !== undefined && { undo }) },
      copy: { run: () => 'copied', undo: ({ input }) => void undone.push(input) },
    },
    handle: async (_, turn) => {
      const outcome = await turn.guard('deploy', async (operation) => {
        await operation.call('copy', { name: 'a' });
        await operation.call('login', { password: 'hunter2hunter2' });
        throw new Error('down');
      });
      outcomes.push(outcome);
    },
  });
  const first = await world.start({ createAgent: agentWith(() => new Promise(() => undefined)) });
  await first.loop.deliver({ id: 'm1', body: null });
  await world.clock.settle();
  first.die();
  await world.start({ createAgent: agentWith(({ input }) => void undone.push(input)) });
  await world.clock.pass(MINUTE);
  expect(undone).toEqual([{ name: 'a' }]);
  expect(outcomes).toMatchObject([
    {
      status: 'rolled_back',
      undone: [
        { tool: 'login', status: 'failed', error: { name: 'SecretLeftOutError' } },
        { tool: 'copy', status: 'undone' },
      ],
    },
  ]);
});

test('[loop.32] a tool is not called with what stands for a secret that an earlier process got', async () => {
  const world = new World();
  const inputs: unknown[] = [];
  const agentWith = (pay: LoopTool['run']) => (): LoopAgent => ({
    tools: { pay: { run: pay } },
    handle: async (_, turn) => {
      const session = await turn.step('login', () => ({ accessToken: API_KEY }));
      await turn.call('pay', session);
    },
  });
  const first = await world.start({ createAgent: agentWith(() => new Promise(() => undefined)) });
  await first.loop.deliver({ id: 'm1', body: null });
  await world.clock.settle();
  first.die();
  const { loop } = await world.start({ createAgent: agentWith((input) => inputs.push(input)) });
  await world.clock.pass(10 * MINUTE);
  expect(inputs).toEqual([]);
  expect(loop.state.mailbox.setAside).toMatchObject([{ error: { name: 'SecretLeftOutError' } }]);
});

test('[loop.32] nor with a string that held a secret', async () => {
  const world = new World();
  const inputs: unknown[] = [];
  const agentWith = (pay: LoopTool['run']) => (): LoopAgent => ({
    tools: { pay: { run: pay } },
    handle: async (_, turn) => {
      const header = await turn.step('login', () => `use ${API_KEY} now`);
      await turn.call('pay', { header, note: 'not a [secret mark]' });
    },
  });
  const first = await world.start({ createAgent: agentWith(() => new Promise(() => undefined)) });
  await first.loop.deliver({ id: 'm1', body: null });
  await world.clock.settle();
  first.die();
  const { loop } = await world.start({ createAgent: agentWith((input) => inputs.push(input)) });
  await world.clock.pass(10 * MINUTE);
  expect(inputs).toEqual([]);
  const message = expect.stringContaining('$.header');
  expect(loop.state.mailbox.setAside).toMatchObject([{ error: { name: 'SecretLeftOutError', message } }]);
});

test('[loop.25] secrets in what was done for a message that is set aside are no finding: nobody can set them', async () => {
  const world = new World();
  const createAgent = (): LoopAgent => ({
    tools: { login: { run: () => ({ accessToken: API_KEY }) } },
    handle: async (_, turn) => {
      await turn.guard('deploy', async (operation) => {
        await operation.call('login', { password: 'hunter2hunter2' });
        throw new Error('down');
      });
      throw new Error('always');
    },
  });
  const { loop } = await world.start({ createAgent });
  await loop.deliver({ id: 'm1', body: null });
  await world.clock.pass(10 * MINUTE);
  expect(loop.state.mailbox.setAside).toHaveLength(1);
  await loop.stop();
  const { checks } = await verifyAgent(world.look(), 'agent-1');
  expect(checks.filter(({ status }) => status === 'failed')).toEqual([]);
});

test('[loop.5] a message whose id looks like a secret is refused: redacted, it would not be known again', async () => {
  const { loop } = await new World().start({ createAgent: () => ({ handle: () => undefined }) }, { run: false });
  const refused = { code: 'INVALID_INPUT', message: expect.stringContaining('The id of a message holds what looks') };
  await expect(loop.deliver({ id: API_KEY, body: 1 })).rejects.toMatchObject(refused);
});

test('[secret.1] events tell of errors without the secrets in them, as they are saved', async () => {
  const world = new World();
  const createAgent = (): LoopAgent => ({
    handle: () => {
      throw new Error(`401 for Authorization: Bearer ${API_KEY}`);
    },
  });
  const { loop, events } = await world.start({ createAgent });
  await loop.deliver({ id: 'm1', body: 1 });
  await world.clock.pass(10 * MINUTE);
  const told = events.filter((event) => 'error' in event);
  expect(told.map(({ kind }) => kind)).toContain('set_aside');
  expect(JSON.stringify(events)).not.toContain(API_KEY);
  expect(JSON.stringify(told)).toContain('[secret ');
});

test('[loop.5] an instance in a body is refused, or kept by the codec of its class', async () => {
  class Order {
    readonly total: number;
    constructor(total: number) {
      this.total = total;
    }
  }
  const world = new World();
  const bodies: unknown[] = [];
  const { loop } = await world.start({ createAgent: () => ({ handle: ({ body }) => void bodies.push(body) }) });
  await expect(loop.deliver({ id: 'm1', body: { order: new Order(5) } })).rejects.toMatchObject({
    code: 'INVALID_INPUT',
    message: expect.stringMatching(/body of message "m1" cannot be kept.*\$\.order.*instance of Order/),
  });
  const at = new Map([['when', new Date(5)]]);
  await loop.deliver({ id: 'm2', body: at });
  at.clear();
  await world.clock.settle();
  expect(bodies).toEqual([new Map([['when', new Date(5)]])]);
});
