import { describe, expect, onTestFinished, test } from 'vitest';
import { type SuperviseOptions, type SupervisionEvent, superviseProcess } from '../index.ts';

/** A process that does what a line of code says. */
function supervise(program: string, options: Partial<SuperviseOptions> = {}) {
  const events: SupervisionEvent[] = [];
  const supervised = superviseProcess({
    command: process.execPath,
    args: ['-e', program],
    stdio: ['ignore', 'ignore', 'ignore'],
    backoffMs: 1,
    onEvent: (event) => events.push(event),
    ...options,
  });
  onTestFinished(async () => void (await supervised.stop()));
  return { supervised, events, ends: () => events.flatMap((event) => (event.kind === 'ended' ? [event.why] : [])) };
}

function warnings(): string[] {
  const heard: string[] = [];
  const note = (warning: Error): void => void heard.push(warning.message);
  process.on('warning', note);
  onTestFinished(() => void process.off('warning', note));
  return heard;
}

describe('a supervisor', () => {
  test.each<[string, object]>([
    ['no options', undefined as unknown as object],
    ['no command', {}],
    ['an empty command', { command: '' }],
    ['an unknown option', { command: 'node', heartbeatMs: 1 }],
    ['args that are no list', { command: 'node', args: 'agent.mjs' }],
    ['args that are no texts', { command: 'node', args: [5] }],
    ['too few streams', { command: 'node', stdio: ['ignore'] }],
    ['an unknown stream', { command: 'node', stdio: ['ignore', 'ignore', 'ipc'] }],
    ['hangMs NaN', { command: 'node', hangMs: Number.NaN }],
    ['hangMs below zero', { command: 'node', hangMs: -5 }],
    ['hangMs that no timer takes', { command: 'node', hangMs: 1e10 }],
    ['maxRestarts NaN', { command: 'node', maxRestarts: Number.NaN }],
    ['windowMs 0', { command: 'node', windowMs: 0 }],
    ['backoffMs in words', { command: 'node', backoffMs: '1s' }],
    ['stopMs without end', { command: 'node', stopMs: Number.POSITIVE_INFINITY }],
    ['refreshCode 0', { command: 'node', refreshCode: 0 }],
    ['onEvent that is no function', { command: 'node', onEvent: 'log' }],
    ['onMessage that is no function', { command: 'node', onMessage: {} }],
  ])('[input.1] refuses %s before it starts anything', (_, options) => {
    expect(() => superviseProcess(options as SuperviseOptions)).toThrow(
      expect.objectContaining({
        code: 'INVALID_INPUT',
        message: expect.stringMatching(/; (found|known:|did you mean) /),
      }),
    );
  });

  test('[input.1] takes an option that is undefined for one that was left out', async () => {
    const { supervised } = supervise('setTimeout(() => process.exit(0), 100)', { hangMs: undefined } as object);
    expect(await supervised.ended).toEqual({ status: 'done', restarts: 0 });
  });

  test('[loop.9] goes on if its listeners throw or reject', async () => {
    const heard = warnings();
    let messages = 0;
    const { supervised } = supervise("process.send({ kind: 'heartbeat' }, () => process.exit(3))", {
      maxRestarts: 1,
      onEvent: ({ kind }) => {
        throw new Error(`event ${kind}`);
      },
      onMessage: async () => {
        messages++;
        throw new Error('message');
      },
    });
    expect(await supervised.ended).toEqual({ status: 'gave_up', restarts: 1 });
    expect(messages).toBe(2);
    await new Promise((resolve) => setImmediate(resolve));
    for (const what of ['event spawned', 'event ended', 'event gave_up', 'Error: message'])
      expect(heard.some((text) => text.includes(what))).toBe(true);
  });

  test('[loop.9] goes on if its listener for messages throws at once, or what knows heartbeats does', async () => {
    const heard = warnings();
    const fail = (): never => {
      throw new Error('mine');
    };
    const { supervised } = supervise("process.send('hello', () => process.exit(0))", {
      onMessage: fail,
      isHeartbeat: fail,
    });
    expect(await supervised.ended).toEqual({ status: 'done', restarts: 0 });
    await new Promise((resolve) => setImmediate(resolve));
    expect(heard.filter((text) => text.includes('mine')).length).toBe(2);
  });

  test('[loop.9] takes a command that cannot even be tried for one that crashes', async () => {
    const { supervised, ends } = supervise('', { cwd: '/no/such/folder', maxRestarts: 2 });
    expect(await supervised.ended).toEqual({ status: 'gave_up', restarts: 2 });
    expect(ends()).toEqual(['crash', 'crash', 'crash']);
  });

  test('[loop.28] bears a process that asks for a new one at once only as often as crashes', async () => {
    const startMs = performance.now();
    const { supervised, ends } = supervise('process.exit(75)', { maxRestarts: 3, backoffMs: 40 });
    expect(await supervised.ended).toEqual({ status: 'gave_up', restarts: 3 });
    expect(ends()).toEqual(['refresh', 'refresh', 'refresh', 'refresh']);
    expect(performance.now() - startMs).toBeGreaterThan(40 + 80 + 160);
  });

  test('[loop.28] gives one that was alive its successor as often as it asks', async () => {
    const program = "process.send({ kind: 'heartbeat' }, () => process.exit(75))";
    const { supervised, ends } = supervise(program, { maxRestarts: 1, backoffMs: 60_000 });
    while (ends().length < 5) await new Promise((resolve) => setTimeout(resolve, 10));
    expect(await supervised.stop()).toMatchObject({ status: 'stopped' });
    expect(ends().slice(0, 5)).toEqual(Array(5).fill('refresh'));
  });
});
