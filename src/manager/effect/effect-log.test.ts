import { expect, test } from 'vitest';
import { describeOn } from '../../../test/support/later.ts';
import { STORAGES } from '../../../test/support/storages.ts';
import { type FaultPlan, faultyStorage } from '../../testing/faulty-storage.ts';
import { CheckpointManager } from '../checkpoint-manager.ts';
import type { Session } from '../session/session.ts';
import type { SessionOptions } from '../write/session-options.ts';

/** Runs a script of steps and notes which of them really ran. */
async function play(
  session: Session,
  script: readonly (readonly [name: string, input: unknown])[],
): Promise<{ ran: string[]; results: unknown[] }> {
  const ran: string[] = [];
  const results: unknown[] = [];
  for (const [name, input] of script) {
    const run = ({ attempt }: { attempt: number }) => {
      ran.push(`${name}:${attempt}`);
      return { name, input, at: new Date(7) };
    };
    results.push(await session.step(name, run, { input }));
  }
  return { ran, results };
}

const SCRIPT = [
  ['model', 'a'],
  ['tool', 'b'],
  ['model', 'c'],
] as const;

describeOn(STORAGES)('session.step on %s', (_, create) => {
  async function open(options?: SessionOptions) {
    const { storage } = create();
    const manager = new CheckpointManager({ storage });
    return {
      manager,
      session: await manager.session('s', options),
      again: (more?: SessionOptions) => manager.session('s', more),
    };
  }

  test('[effect.1] a finished step returns its recorded result without running, also without any checkpoint', async () => {
    const { manager, session, again } = await open();
    const first = await play(session, SCRIPT);
    expect(first.ran).toEqual(['model:1', 'tool:1', 'model:1']);
    const second = await play(await again(), [...SCRIPT, ['tool', 'd']]);
    expect(second.ran).toEqual(['tool:1']);
    expect(second.results.slice(0, 3)).toEqual(first.results);
    await manager.close();
  });

  test('[effect.4] what was recorded before the head is not replayed, what came after it is; from the start, all is', async () => {
    const { manager, session, again } = await open();
    await play(session, SCRIPT.slice(0, 2));
    await session.save({ turn: 1 });
    await play(session, SCRIPT.slice(2));
    expect((await play(await again(), SCRIPT.slice(2))).ran).toEqual([]);
    expect((await play(await again({ replayFrom: 'start' }), SCRIPT)).ran).toEqual([]);
    await manager.close();
  });

  test('[effect.4] from the start, the state begins at `initial` again, so updates are not made on top of themselves', async () => {
    const { storage } = create();
    const manager = new CheckpointManager({ storage });
    const initial = { total: 0, log: [] as string[] };
    for (const [isWhole, total] of [
      [false, 10],
      [true, 12],
      [true, 12],
    ] as const) {
      const session = await manager.session('s', { replayFrom: 'start', initial });
      expect(session.state).toEqual(initial);
      for (const [name, price] of Object.entries({ price: 10, ...(isWhole && { tax: 2 }) })) {
        const paid = await session.step(name, () => price);
        await session.update((draft) => {
          draft.total += paid;
          draft.log.push(name);
        });
      }
      expect([session.state.total, (await manager.session('s', { initial })).state]).toEqual([total, session.state]);
      await session.close();
    }
    const without = await manager.session('s', { replayFrom: 'start' });
    const log = (draft: unknown) => void (draft as typeof initial).log.push('again');
    expect(without.state).toMatchObject({ total: 12 });
    await expect(without.update(log)).rejects.toThrow(/Pass initial to session\(\)/);
    await without.save(initial);
    await without.update(log);
    expect(without.state).toEqual({ total: 0, log: ['again'] });
    await manager.close();
  });

  test('[effect.2] a failed step may be retried and keeps its key; its caller sees its own error', async () => {
    const { manager, session, again } = await open();
    const keys: string[] = [];
    const boom = new TypeError('no answer');
    const failing = session.step('call', ({ idempotencyKey }) => {
      keys.push(idempotencyKey);
      throw boom;
    });
    await expect(failing).rejects.toBe(boom);
    const answer = await (await again()).step('call', ({ idempotencyKey, attempt }) => {
      keys.push(idempotencyKey);
      return attempt;
    });
    expect(answer).toBe(2);
    expect(keys[0]).toBe(keys[1]);
    await manager.close();
  });

  test('[effect.2] a failed step keeps its key and its place for the next call in the same process, also after a save', async () => {
    const { manager, session, again } = await open();
    const tries: { idempotencyKey: string; attempt: number }[] = [];
    const call = (on: Session, input: string, fails: boolean) =>
      on.step(
        'call',
        ({ idempotencyKey, attempt }) => {
          tries.push({ idempotencyKey, attempt });
          if (fails) throw new Error('503');
          return attempt;
        },
        { input },
      );
    await expect(call(session, 'a', true)).rejects.toThrow('503');
    await expect(call(session, 'b', true)).rejects.toThrow('503');
    expect(await call(session, 'a', false)).toBe(2);
    await session.save({ n: 1 });
    expect(await call(session, 'b', false)).toBe(2);
    expect(tries.map(({ attempt }) => attempt)).toEqual([1, 1, 2, 2]);
    expect(tries[2]?.idempotencyKey).toBe(tries[0]?.idempotencyKey);
    expect(tries[3]?.idempotencyKey).toBe(tries[1]?.idempotencyKey);
    expect(await call(await again(), 'b', true)).toBe(2); // recorded, although its first attempt was before the head
    await manager.close();
  });

  test('[effect.3] of equal calls the finished one is used first, then the one that was in flight runs with its key', async () => {
    const { manager, session, again } = await open();
    const keys: string[] = [];
    const call = (on: Session, result: unknown) =>
      on.step(
        'call',
        ({ idempotencyKey }) => {
          keys.push(idempotencyKey);
          return result;
        },
        { input: 'x' },
      );
    void call(session, new Promise(() => undefined));
    expect(await call(session, 'done')).toBe('done');
    const resumed = await again();
    expect(await call(resumed, 'ran again')).toBe('done');
    expect(await call(resumed, 'now')).toBe('now');
    expect(keys).toEqual([keys[0], keys[1], keys[0]]);
    await manager.close();
  });

  test('[effect.3] what is recorded, or was in flight, is found by name and input in any order, with its key', async () => {
    const { manager, session, again } = await open();
    const keys = new Map<string, string>();
    const pay = (on: Session, who: string, run: () => unknown) =>
      on.step(
        'pay',
        ({ idempotencyKey, attempt }) => {
          expect(keys.get(who) ?? idempotencyKey).toBe(idempotencyKey);
          keys.set(who, idempotencyKey);
          return attempt === 1 ? run() : `receipt ${who}`;
        },
        { input: { who } },
      );
    for (const who of ['ann', 'bob']) await pay(session, who, () => `receipt ${who}`);
    for (const who of ['cy', 'dan']) void pay(session, who, () => new Promise(() => undefined)); // in flight when the process dies
    while (keys.size < 4) await new Promise((resolve) => setImmediate(resolve));
    const resumed = await again();
    const receipts = [];
    for (const who of ['dan', 'bob', 'cy', 'ann']) receipts.push(await pay(resumed, who, () => 'paid twice'));
    expect(receipts).toEqual(['receipt dan', 'receipt bob', 'receipt cy', 'receipt ann']);
    expect(new Set(keys.values()).size).toBe(4);
    await manager.close();
  });

  test('[effect.5] a frozen replay only replays: another input, a missing or unfinished recording is an error that names the step', async () => {
    const { manager, session } = await open();
    await session.save({ turn: 0 });
    await play(session, SCRIPT);
    const start = session.head?.id ?? '';
    const { branch } = await manager.fork(start, { branch: 'again' });
    const replay = await manager.session('s', { branch, mode: 'frozen' });
    expect((await play(replay, SCRIPT.slice(0, 2))).ran).toEqual([]);
    await expect(play(replay, [['model', 'other']])).rejects.toMatchObject({
      code: 'REPLAY_MISMATCH',
      message: expect.stringContaining('"model"'),
    });
    await expect(play(replay, [['unheard', 1]])).rejects.toMatchObject({ code: 'REPLAY_MISMATCH' });
    await manager.close();
  });

  test('[effect.5] a recorded replay uses recordings while inputs match and goes live at the first difference', async () => {
    const { manager, session } = await open();
    await session.save({ turn: 0 });
    const original = await play(session, SCRIPT);
    const { branch } = await manager.fork(session.head?.id ?? '', { branch: 'what-if' });
    const replay = await manager.session('s', { branch, mode: 'recorded' });
    const played = await play(replay, [SCRIPT[0], ['tool', 'changed'], SCRIPT[2]]);
    expect(played.ran).toEqual(['tool:1', 'model:1']);
    expect(played.results[0]).toEqual(original.results[0]);
    const resumed = await manager.session('s', { branch });
    expect((await play(resumed, [SCRIPT[0], ['tool', 'changed'], SCRIPT[2]])).ran).toEqual([]);
    await manager.close();
  });

  test('[effect.3] steps may run at the same time; many of them are read back in one go', async () => {
    const { manager, session, again } = await open();
    const count = 200;
    const all = Array.from({ length: count }, (_, i) => session.step(`step ${i % 7}`, () => i, { input: i }));
    expect(await Promise.all(all)).toEqual(Array.from({ length: count }, (_, i) => i));
    const resumed = await again();
    const replayed = Array.from({ length: count }, (_, i) =>
      resumed.step(`step ${i % 7}`, () => Promise.reject(new Error('ran again')), { input: i }),
    );
    expect(await Promise.all(replayed)).toEqual(Array.from({ length: count }, (_, i) => i));
    await manager.close();
  });

  test('[save.3] two writers on one branch collide before a step runs twice', async () => {
    const { manager, session, again } = await open();
    const other = await again();
    await session.step('call', () => 1);
    await expect(other.step('other', () => 2)).rejects.toMatchObject({ code: 'CONFLICT' });
    await session.save({ n: 1 });
    const stale = await again();
    await session.save({ n: 2 });
    await expect(stale.step('late', () => 3)).rejects.toMatchObject({ code: 'CONFLICT' });
    await manager.close();
  });

  test('[save.3] two writers begin a session: the second is told before a step of it runs, or branches', async () => {
    const { storage, reopen } = create();
    const [first, second] = [storage, reopen?.() ?? storage].map((own) => new CheckpointManager({ storage: own }));
    const one = await first?.session('s');
    const other = await second?.session('s');
    const branching = await second?.session('s', { onConflict: 'branch' });
    const kept = await one?.save({ n: 1 });
    let hasRun = false;
    const late = other?.step('call', () => (hasRun = true));
    await expect(late).rejects.toMatchObject({ code: 'CONFLICT', details: { kind: 'branch', found: kept } });
    await expect(other?.save({ n: 2 })).rejects.toMatchObject({ code: 'CONFLICT' });
    expect(hasRun).toBe(false);
    expect(await one?.step('call', () => 'own')).toBe('own');
    await branching?.save({ n: 3 });
    expect(await branching?.step('call', () => 'of the branch')).toBe('of the branch');
    await branching?.save({ n: 4 });
    expect(branching?.branch).toMatch(/^main~/);
    expect(branching?.head).toMatchObject({ sequence: 2, branch: branching?.branch });
    const resumed = await second?.session('s');
    expect(resumed?.head?.id).toBe(kept);
    expect(await resumed?.step('call', () => 'again')).toBe('own');
    expect(await second?.verify()).toMatchObject({ status: 'clean', checkpoints: 3 });
    for (const manager of [first, second]) await manager?.close();
  });

  test('[save.3] a step that another writer recorded since is not taken for one of the checkpoint after it', async () => {
    const { manager, session, again } = await open();
    await session.save({ n: 1 });
    const [late, branching] = [await again(), await again({ onConflict: 'branch' })];
    await session.step('call', () => 'own');
    await expect(late.save({ n: 2 })).rejects.toMatchObject({ code: 'CONFLICT', details: { kind: 'log', found: '1' } });
    await branching.save({ n: 3 });
    expect(await branching.step('call', () => 'of the branch')).toBe('of the branch');
    expect(await (await again()).step('call', () => 'again')).toBe('own');
    await session.save({ n: 4 });
    expect(await manager.verify()).toMatchObject({ status: 'clean', checkpoints: 3 });
    await manager.close();
  });

  test('[save.3] a session that another writer began with a step is not begun again by a save', async () => {
    const { manager, session, again } = await open();
    const late = await again();
    const branching = await again({ onConflict: 'branch' });
    await session.step('call', () => 'own');
    await expect(late.save({ n: 1 })).rejects.toMatchObject({ code: 'CONFLICT', details: { kind: 'log' } });
    await branching.save({ n: 2 });
    expect(branching.branch).toMatch(/^main~/);
    await session.save({ n: 3 });
    expect(await (await again()).step('call', () => 'again')).toBe('again');
    await manager.close();
  });

  test('[effect.4] a step that runs while a checkpoint is saved is known to be in flight, and its result is used after a resume', async () => {
    const { manager, session, again } = await open();
    let finish: (value: string) => void = () => undefined;
    const slow = session.step(
      'slow',
      () =>
        new Promise<string>((resolve) => {
          finish = resolve;
        }),
    );
    await session.step('quick', () => 1);
    await session.save({ n: 1 });
    expect(session.head?.header).toMatchObject({ effectCount: 2, effectsInFlight: [0] });
    finish('done');
    expect(await slow).toBe('done');
    expect(await (await again()).step('slow', () => 'ran again')).toBe('done');
    await manager.close();
  });

  test('[save.4] a step that could not begin did not run; the session goes on, and opens again', async () => {
    const plan: FaultPlan = { commits: { 2: 'fails', 3: 'loses_request' } };
    const manager = new CheckpointManager({ storage: faultyStorage(create().storage, plan) });
    const session = await manager.session('s');
    await session.save({ n: 0 });
    let ran = 0;
    const call = () => session.step('call', () => ++ran);
    await expect(call()).rejects.toMatchObject({ code: 'STORAGE' });
    await expect(call()).rejects.toMatchObject({ code: 'STORAGE' });
    await session.save({ n: 1 });
    expect(session.head?.header.effectCount).toBeUndefined();
    expect(await call()).toBe(1);
    const together = [session.step('a', () => 'a'), session.step('b', () => 'b')];
    expect(await Promise.all(together)).toEqual(['a', 'b']);
    const again = await manager.session('s');
    expect(again.state).toEqual({ n: 1 });
    expect(await again.step('call', () => ++ran)).toBe(1);
    await manager.close();
  });

  test('[save.4] a checkpoint counts no step whose beginning is not stored yet', async () => {
    let stored: () => void = () => undefined;
    const saved = new Promise<void>((resolve) => {
      stored = resolve;
    });
    const delay = (method: string, nth: number) => (method === 'commit' && nth === 3 ? saved : undefined);
    const manager = new CheckpointManager({
      storage: faultyStorage(create().storage, { commits: { 3: 'fails' }, delay }),
    });
    const session = await manager.session('s');
    await session.step('first', () => 1);
    const step = expect(session.step('second', () => 1)).rejects.toMatchObject({ code: 'STORAGE' });
    const save = session.save({ n: 1 });
    stored();
    await step;
    await save;
    expect(session.head?.header.effectCount).toBe(1);
    expect((await manager.session('s')).state).toEqual({ n: 1 });
    await manager.close();
  });

  test('[save.2] a step begun while a save is under way stands on that save', async () => {
    const { manager, session, again } = await open();
    await session.save({ n: 0 });
    const save = session.save({ n: 1 });
    for (let turn = 0; turn < 5; turn++) await Promise.resolve();
    const step = session.step('call', () => 'done');
    const next = session.save({ n: 2 });
    expect(await Promise.all([step, save.then(() => 'saved'), next.then(() => 'saved')])).toEqual([
      'done',
      'saved',
      'saved',
    ]);
    expect(await (await again()).step('other', () => 1)).toBe(1);
    await manager.close();
  });

  test('[effect.4] a state that was saved before a result was seen does not count it as known', async () => {
    let store: () => void = () => undefined;
    const held = new Promise<void>((resolve) => {
      store = resolve;
    });
    const delay = (method: string, nth: number) => (method === 'commit' && nth === 2 ? held : undefined);
    const manager = new CheckpointManager({ storage: faultyStorage(create().storage, { delay }) });
    const session = await manager.session('s');
    await session.save({ n: 0 });
    let ran = 0;
    let finish: () => void = () => undefined;
    const slow = session.step('slow', () => new Promise<number>((resolve) => (finish = () => resolve(++ran))));
    await Promise.resolve();
    // Called before the result is there, and stored after it: the state cannot hold it.
    const save = session.save({ n: 1 });
    store();
    while (ran === 0) {
      finish();
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    await Promise.all([slow, save]);
    const resumed = await manager.session('s');
    expect(resumed.state).toEqual({ n: 1 });
    expect(await resumed.step('slow', () => ++ran)).toBe(1);
    await manager.close();
  });

  test('[effect.6] a new branch never gets the recordings of a deleted one of its name', async () => {
    const { manager, session } = await open();
    const id = await session.save({ n: 0 });
    const fork = async (branch?: string) => manager.fork(id, branch === undefined ? {} : { branch });
    const first = await fork('x');
    const other = await manager.session('s', { branch: 'x' });
    expect(await other.step('go', () => 'old')).toBe('old');
    await other.close();
    await manager.deleteBranch('s', first.branch);
    await expect(fork('x')).rejects.toMatchObject({
      code: 'CONFLICT',
      message: expect.stringContaining('was deleted'),
    });
    const named = await manager.session('s', { branch: (await fork('y')).branch });
    expect(await named.step('go', () => 'new')).toBe('new');
    await manager.close();
  });

  test('[effect.4] a checkpoint in the middle of something leaves what was recorded since its parent to a resume', async () => {
    const { manager, session, again } = await open();
    await session.step('before', () => 'known');
    await session.save({ n: 0 });
    let ran = 0;
    await session.step('call', () => ++ran);
    await session.save({ n: 0 }, { effects: 'of_parent', type: 'recovery' });
    const resumed = await again();
    expect(resumed.head?.type).toBe('recovery');
    expect(await resumed.step('call', () => ++ran)).toBe(1);
    expect(await resumed.step('before', () => 'new')).toBe('new');
    await resumed.save({ n: 1 });
    expect(await (await again()).step('call', () => ++ran)).toBe(2);
    await manager.close();
  });

  test('[value.5] a result that cannot be saved is an error that names the path', async () => {
    const { manager, session } = await open();
    await expect(session.step('odd', () => ({ f: () => 1 }))).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      message: expect.stringMatching(
        /^Step "odd" ran, but what it returned cannot be recorded, so its call will run again/,
      ),
      details: { path: '$.f', step: 'odd' },
    });
    await manager.close();
  });
});
