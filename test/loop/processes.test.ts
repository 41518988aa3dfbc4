import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, onTestFinished, test } from 'vitest';
import { CheckpointManager } from '../../src/manager/checkpoint-manager.ts';
import { type AgentLoopOptions, type LoopAgentState, verifyAgent } from '../../src/runtime/loop/index.ts';
import { SqliteCheckpointStorage } from '../../src/storage/sqlite/sqlite-storage.ts';
import { builtFolder } from '../support/on-demand.ts';
import { temporaryFolder } from '../support/storages.ts';

type Supervised = {
  readonly ended: Promise<{ readonly status: string; readonly restarts: number }>;
  send(message: unknown): boolean;
  stop(): Supervised['ended'];
};
type Supervision = {
  readonly startMs?: number;
  readonly hangMs?: number;
  readonly backoffMs?: number;
  readonly maxRestarts?: number;
  readonly onEvent?: (event: { readonly why: string }) => void;
  readonly onMessage?: (message: unknown) => void;
};
const { supervise } = (await import(new URL('../../examples/loop/supervise.mjs', import.meta.url).href)) as {
  supervise(command: string, args: readonly string[], options?: Supervision): Supervised;
};

type Heard = { readonly kind: string; readonly id?: string; readonly state?: LoopAgentState };
type Line = { readonly id: string; readonly part: string; readonly key: string };

/** A silence that a busy machine rarely causes; where it does, that counts as a hang as well, so many are borne. */
const IMPATIENT: Supervision = { hangMs: 2500, maxRestarts: 30 };

builtFolder(); // what the program imports
const PROGRAM = fileURLToPath(new URL('children/clerk.mjs', import.meta.url));

/** A supervised agent, a sender that repeats what was not accepted, and what both saw. */
class Office {
  readonly heard: Heard[] = [];
  readonly events: { readonly why: string }[] = [];
  readonly path = join(temporaryFolder(), 'clerk.db');
  readonly #side = `${this.path}.side`;
  readonly #unaccepted = new Map<string, unknown>();
  readonly supervised: Supervised;
  #wake: () => void = () => undefined;

  constructor(options: Pick<AgentLoopOptions, 'settings' | 'refresh'> = {}, supervision: Supervision = {}) {
    const args = [PROGRAM, JSON.stringify({ path: this.path, side: this.#side, ...options })];
    this.supervised = supervise(process.execPath, args, {
      startMs: 10_000,
      hangMs: 5000,
      backoffMs: 50,
      ...supervision,
      onEvent: (event) => this.#note(() => this.events.push(event)),
      onMessage: (message) => this.#note(() => this.#hear(message as Heard)),
    });
    onTestFinished(async () => void (await this.supervised.stop()));
  }

  #note(note: () => void): void {
    note();
    this.#wake();
  }

  #hear(message: Heard): void {
    this.heard.push(message);
    if (message.kind === 'open') for (const deliver of this.#unaccepted.values()) this.supervised.send({ deliver });
    if (message.kind === 'accepted') this.#unaccepted.delete(message.id ?? '');
  }

  deliver(id: string, body: string, delivery?: string): void {
    const message = { id, body, ...(delivery !== undefined && { delivery }) };
    this.#unaccepted.set(id, message);
    this.supervised.send({ deliver: message });
  }

  async until(isTrue: () => boolean): Promise<void> {
    while (!isTrue()) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  /** The state once this many messages are over and the task is done; asks whoever is alive, again and again. */
  async settled(messages: number): Promise<LoopAgentState> {
    for (;;) {
      this.supervised.send({ report: true });
      const state = this.heard.findLast(({ kind }) => kind === 'report')?.state;
      const over = (state?.mailbox.processedCount ?? 0) + (state?.mailbox.setAside.length ?? 0);
      if (state !== undefined && over >= messages && state.task?.status === 'done') return state;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  get outside(): Line[] {
    if (!existsSync(this.#side)) return [];
    return readFileSync(this.#side, 'utf8')
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as Line);
  }

  ends(): string[] {
    return this.events.map(({ why }) => why);
  }

  async look() {
    const manager = new CheckpointManager({ storage: new SqliteCheckpointStorage({ path: this.path }) });
    const { checkpoints } = await manager.list({ agentId: 'clerk' }, { order: 'oldest', limit: 1000 });
    const report = await verifyAgent(manager, 'clerk');
    await manager.close();
    return { triggers: checkpoints.map(({ trigger }) => trigger), report };
  }
}

/** Each part of each message once, with one key. */
function expectOnce(lines: readonly Line[], ids: readonly string[]): void {
  const wanted = ids.flatMap((id) => [`${id} before`, `${id} after`]);
  expect(lines.map(({ id, part }) => `${id} ${part}`)).toEqual(wanted);
}

describe('a supervised agent', () => {
  test.each([
    ['is killed', 'kill', 'crash'],
    ['spins', 'spin', 'hang'],
    ['waits for ever', 'wait', 'hang'],
  ])('[loop.27] that %s comes back and goes on where it was', async (_, trouble, why) => {
    const office = new Office({ settings: { turnTimeoutMs: 500 } }, why === 'hang' ? IMPATIENT : {});
    office.deliver('m1', 'plain');
    office.deliver('m2', trouble);
    office.deliver('m3', 'plain');
    office.deliver('m4', trouble, 'at-most-once');
    const state = await office.settled(4);
    expect(state.memory.session.done).toEqual(['m1', 'm2', 'm3']);
    expect(state.mailbox.setAside).toMatchObject([{ message: { id: 'm4' }, error: { name: 'Interrupted' } }]);
    // On a busy machine a start may be taken for a hang, too: that does no harm either.
    expect(office.ends().filter((end) => end === why).length).toBeGreaterThanOrEqual(2);
    expectOnce(
      office.outside.filter(({ id }) => id !== 'm4'),
      ['m1', 'm2', 'm3'],
    );
    expect(office.outside.filter(({ id }) => id === 'm4').map(({ part }) => part)).toEqual(['before']);
    expect(await office.supervised.stop()).toMatchObject({ status: 'stopped' });
    const { report, triggers } = await office.look();
    expect(report.status).toBe('passed');
    expect(triggers.at(-1)).toBe('stopped');
  });

  test('[loop.27] in a storm of errors saves little, sets aside what fails, and goes on with the rest', async () => {
    const office = new Office({ settings: { retryDelayMs: 1 } });
    for (let number = 0; number < 30; number++) office.deliver(`bad ${number}`, 'storm');
    office.deliver('good', 'plain');
    const state = await office.settled(31);
    expect(state.mailbox.setAside.length).toBe(30);
    expect(state.memory.session.done).toEqual(['good']);
    await office.supervised.stop();
    const { triggers } = await office.look();
    expect(triggers).toEqual(['started', 'error', 'stopped']);
    // Three attempts, one call: what ended is not done again.
    expect(office.outside.filter(({ id }) => id === 'bad 7').length).toBe(1);
  });

  test('[loop.27] that drifts is brought back, knows why, and goes on with its task', async () => {
    const office = new Office();
    office.deliver('m1', 'plain');
    office.deliver('m2', 'maze');
    office.deliver('m3', 'plain');
    const state = await office.settled(3);
    expect(state.memory.session.done).toEqual(['m2', 'm3']); // m1 was handled after the last checkpoint: the note names it
    expect(state.mailbox).toMatchObject({ processedCount: 3, setAside: [] });
    expect(state.context.notes).toMatchObject([{ kind: 'drift', handledSince: ['m1'] }]);
    expect(state.task).toMatchObject({ status: 'done', progress: 1 });
    await office.supervised.stop();
    expect((await office.look()).triggers).toEqual(['started', 'drift', 'restored', 'stopped']);
    expect(office.ends()).toEqual(['stopped']);
  });

  test('[loop.27] that asks for a refresh gets a new process at once, with clean context', async () => {
    const office = new Office({ settings: { refreshEveryMs: 1000 }, refresh: 'exit' });
    office.deliver('m1', 'plain');
    await office.until(() => office.heard.filter(({ kind }) => kind === 'started').length === 3);
    office.deliver('m2', 'plain');
    const state = await office.settled(2);
    expect(state.memory.session.done).toEqual(['m1', 'm2']);
    expectOnce(office.outside, ['m1', 'm2']);
    const { restarts } = await office.supervised.stop();
    expect(office.ends().slice(0, restarts)).toEqual(Array(restarts).fill('refresh'));
    expect((await office.look()).triggers.filter((trigger) => trigger === 'refresh').length).toBe(restarts);
  });
});

test('[loop.27] one that crashes again and again, or cannot be started, is given up; one that is done is done', async () => {
  const run = (program: string, command = process.execPath) =>
    supervise(command, ['-e', program], { backoffMs: 1, maxRestarts: 2 }).ended;
  expect(await run('process.exit(0)')).toEqual({ status: 'done', restarts: 0 });
  expect(await run('process.exit(3)')).toEqual({ status: 'gave_up', restarts: 2 });
  expect(await run('process.exit(75)')).toEqual({ status: 'gave_up', restarts: 2 }); // before any sign of life
  expect(await run('', 'no-such-command-anywhere')).toEqual({ status: 'gave_up', restarts: 2 });
});
