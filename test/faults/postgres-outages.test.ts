import { inspect } from 'node:util';
import { Pool, type PoolConfig } from 'pg';
import { describe, expect, onTestFinished, test } from 'vitest';
import { isOutcomeUnknown, StorageError } from '../../src/core/errors.ts';
import type { SessionId } from '../../src/core/record/id.ts';
import { digestText } from '../../src/core/tree/chunk.ts';
import type { Session } from '../../src/manager/session/session.ts';
import type { Commit } from '../../src/storage/contract.ts';
import { PostgresCheckpointStorage } from '../../src/storage/postgres/postgres-storage.ts';
import { adminClient, freshSchema, postgresUrl } from '../support/postgres.ts';
import { openProxied } from '../support/proxied-postgres.ts';

const SCHEMA = freshSchema();
const RETRY_FOR_MS = 700;
const TIMEOUT_MS = 500;
const PASSWORD = 'correct-horse';
/** How long a call may take that gives up: its retries, and attempts that began just before their end; more on a busy machine. */
const PATIENCE_MS = RETRY_FOR_MS + 20 * TIMEOUT_MS;

/** A server that asks for no password, reached with one. */
function urlWithPassword(): string {
  const url = new URL(postgresUrl());
  url.password = PASSWORD;
  return url.href;
}

const open = (options = {}) =>
  openProxied({
    url: urlWithPassword(),
    schema: SCHEMA,
    retryForMs: RETRY_FOR_MS,
    timeoutMs: TIMEOUT_MS,
    ...options,
  });

type Opened = Awaited<ReturnType<typeof open>>;

async function failureOf(work: Promise<unknown>): Promise<StorageError> {
  const failure = await work.then(
    () => undefined,
    (error: unknown) => error,
  );
  expect(failure).toBeInstanceOf(StorageError);
  return failure as StorageError;
}

async function elapsedMs(work: () => Promise<unknown>): Promise<number> {
  const startMs = performance.now();
  await work();
  return performance.now() - startMs;
}

/** One after the other: all at once they would wait longer for a connection than these tests have patience. */
async function openSessions({ manager }: Opened, count: number): Promise<Session[]> {
  const sessions: Session[] = [];
  for (let at = 0; at < count; at++) sessions.push(await manager.session(`chat-${at}`));
  return sessions;
}

/** From the second session on it is known that nothing here is encrypted, and saves go to the queue at once. */
async function begin({ manager }: Opened): Promise<void> {
  for (const n of [1, 2]) await manager.save({ n });
}

const statesOf = async ({ observer }: Opened, sessionId: string): Promise<unknown[]> => {
  const { checkpoints } = await observer.list({ sessionId }, { limit: 1_000 });
  return Promise.all(checkpoints.map(({ id }) => observer.load(id)));
};

/** Waits until the watch of this file's schema has its own connection. */
async function isListening(): Promise<void> {
  const admin = await adminClient();
  const sql = `SELECT FROM pg_stat_activity WHERE application_name = 'savestate listener' AND state = 'idle' AND query LIKE $1`;
  await expect.poll(async () => (await admin.query(sql, [`%lock_shared("${SCHEMA}"%`])).rowCount).toBeGreaterThan(0);
}

/** Cuts everything, and lets the storage hear of it. */
async function goAway({ proxy, manager }: Opened): Promise<void> {
  proxy.refuse(true);
  proxy.cut();
  expect(isOutcomeUnknown(await failureOf(manager.list()))).toBe(false);
}

describe('a server that is away', () => {
  type Strike = (opened: Opened) => unknown;
  const outages: [name: string, strike: Strike, isSent: boolean][] = [
    ['refuses connections', goAway, false],
    ['does not answer', ({ proxy }) => proxy.stall(), true],
    ['does the work and answers nothing', ({ proxy }) => [proxy.refuse(true), proxy.dropReplies()], true],
  ];

  test.each(outages)(
    '[postgres.2] that %s: a clear error, and the same storage goes on later',
    async (_, strike, isSent) => {
      const opened = await open();
      const session = await opened.manager.session('chat');
      await session.save({ turn: 1 });
      await strike(opened);
      const tookMs = await elapsedMs(async () => {
        const error = await failureOf(session.save({ turn: 2 }));
        expect(isOutcomeUnknown(error)).toBe(isSent);
        expect(error.message).toContain('PostgreSQL at 127.0.0.1:');
        expect(error.message).toContain(`schema "${SCHEMA}"`);
        expect(error.message).toContain(isSent ? 'it is not known whether this was stored' : 'Nothing of this call');
        expect(inspect(error, { depth: 9 })).not.toContain(PASSWORD);
      });
      expect(tookMs).toBeLessThan(PATIENCE_MS);
      opened.proxy.refuse(false);
      opened.proxy.resume();
      await session.save({ turn: 3 });
      expect(await session.step('pay', () => 'paid')).toBe('paid');
      const states = (await statesOf(opened, 'chat')) as { turn: number }[];
      const turns = states.map(({ turn }) => turn);
      expect(isSent ? turns.filter((turn) => turn !== 2) : turns).toEqual([3, 1]);
      expect((await opened.observer.verify({ readData: true })).findings).toEqual([]);
    },
  );

  test('[postgres.2] refuses all that wait for it, in the time of one', async () => {
    const opened = await open();
    const sessions = await openSessions(opened, 40);
    await goAway(opened);
    const tookMs = await elapsedMs(async () => {
      const errors = await Promise.all(sessions.map((session, at) => failureOf(session.save({ at }))));
      expect(errors.filter(isOutcomeUnknown)).toEqual([]);
    });
    expect(tookMs).toBeLessThan(PATIENCE_MS);
    opened.proxy.refuse(false);
    await Promise.all(sessions.map((session, at) => session.save({ at })));
    expect((await opened.observer.stats()).checkpoints).toBe(40);
  });

  test('[postgres.2] is waited for by those who open a storage, too, and not for ever', async () => {
    const { proxy } = await open();
    const openAnother = () => {
      const connectionString = proxy.urlFor(urlWithPassword());
      const options = { connectionString, schema: SCHEMA, tenant: 'acme', retryForMs: RETRY_FOR_MS };
      const storage = new PostgresCheckpointStorage({ ...options, timeoutMs: TIMEOUT_MS });
      onTestFinished(() => storage.close());
      return storage.open();
    };
    proxy.refuse(true);
    const opening = openAnother();
    setTimeout(() => proxy.refuse(false), RETRY_FOR_MS / 3);
    await opening;
    proxy.stall();
    expect(await elapsedMs(() => failureOf(openAnother()))).toBeLessThan(PATIENCE_MS);
    proxy.resume();
    await openAnother();
  });

  test.each(outages)('[postgres.3] that %s: close ends in bounded time', async (_, strike) => {
    const opened = await open();
    await begin(opened);
    const sessions = await openSessions(opened, 300);
    const watch = await opened.storage.watch({ onCheckpoints: () => undefined, onError: () => undefined });
    await isListening();
    await strike(opened);
    const saves = sessions.map((session, at) => session.save({ at }));
    const reading = opened.manager.list().catch(() => undefined);
    await new Promise((resolve) => setImmediate(resolve)); // they are in the queue
    const settled = Promise.allSettled(saves);
    expect(await elapsedMs(() => opened.storage.close())).toBeLessThan(2 * PATIENCE_MS);
    for (const outcome of await settled) expect(outcome).toMatchObject({ reason: { code: 'STORAGE' } });
    await Promise.all([reading, watch.close()]);
  });
});

describe("a pool of the caller's", () => {
  async function openOnPool(config: PoolConfig) {
    const { proxy } = await open();
    const pool = new Pool({ connectionString: proxy.urlFor(urlWithPassword()), max: 1, ...config });
    pool.on('error', () => undefined);
    const storage = new PostgresCheckpointStorage({ pool, schema: SCHEMA, tenant: 'acme', retryForMs: 5_000 });
    onTestFinished(async () => {
      await storage.close();
      await pool.end();
    });
    await storage.open();
    return { proxy, storage };
  }

  test('[postgres.2] lives on when a connection is cut while it is in use', async () => {
    const { proxy, storage } = await openOnPool({});
    for (let lost = 0; lost < 3; lost++) {
      proxy.cutOnNextReply({ skip: lost });
      expect(await storage.listSessions({ limit: 1 })).toEqual([]);
    }
  });

  test('[postgres.2] is not left in a transaction that failed', async () => {
    const { storage } = await openOnPool({ options: '-c lock_timeout=30ms' });
    const admin = await adminClient();
    await admin.query(`BEGIN; LOCK TABLE "${SCHEMA}".session`);
    const reading = storage.listSessions({ limit: 1 });
    setTimeout(() => void admin.query('ROLLBACK'), 200);
    expect(await reading).toEqual([]);
  });
});

describe('a request that arrives late', () => {
  const sessionId = 'chat' as SessionId;
  const moves = (target: string): Commit => ({ sessionId, refs: [{ kind: 'current', name: 'branch', target }] });
  const records = (body: string): Commit => ({
    sessionId,
    effects: [{ sessionId, branch: 'main', ordinal: 0, body, digest: digestText(body) }],
  });

  test.each([
    ['a name', moves],
    ['an effect', records],
  ])('[postgres.1] does not undo what was stored since: %s', async (_, commitOf) => {
    const { storage, observed, proxy } = await open({ retryForMs: 5_000 });
    await storage.commit(commitOf('before'));
    proxy.stallOpen();
    await storage.commit(commitOf('late')); // by another connection, when nobody answers on this one
    await storage.commit(commitOf('last'));
    const { openConnections: before } = proxy.counters;
    proxy.resume();
    await proxy.until(({ openConnections }) => openConnections < before);
    const [ref] = await observed.readRefs({ sessionId });
    const [effect] = await observed.readEffects({ sessionId });
    expect(ref?.target ?? effect?.body).toBe('last');
  });

  test('[postgres.1] does not get in the way of the session that gave it up', async () => {
    const { manager, proxy, observer } = await open({ retryForMs: 0 });
    const session = await manager.session('chat');
    await session.save({ turn: 1 });
    proxy.stallOpen();
    const error = await failureOf(session.save({ turn: 2 }));
    expect(isOutcomeUnknown(error)).toBe(true);
    const third = session.save({ turn: 3 });
    proxy.resume();
    await third;
    await session.save({ turn: 4 });
    expect((await observer.verify({ readData: true })).findings).toEqual([]);
  });
});

describe('a queue that is full', () => {
  const MAX_QUEUED_BYTES = 100_000;
  const text = 'x'.repeat(10_000);

  test('[postgres.3] refuses more at once, and keeps what it took', async () => {
    const opened = await open({ maxQueuedBytes: MAX_QUEUED_BYTES, retryForMs: 10_000, timeoutMs: 10_000 });
    await begin(opened);
    const sessions = await openSessions(opened, 30);
    opened.proxy.stall();
    const saves = sessions.map((session, at) => session.save({ text: `${at} ${text}` }));
    const outcomes = saves.map((save) =>
      save.then(
        () => 'stored',
        (error: unknown) => error,
      ),
    );
    const refused = (await Promise.race([Promise.all(outcomes.slice(-10)), outcomes[0]])) as unknown[];
    expect(refused).toHaveLength(10); // the first ones still wait
    for (const error of refused) {
      expect(error).toBeInstanceOf(StorageError);
      expect((error as StorageError).message).toMatch(/does not keep up: .* at most 100000 may\. Nothing of this one/);
      expect(isOutcomeUnknown(error)).toBe(false);
    }
    opened.proxy.resume();
    const all = await Promise.all(outcomes);
    const stored = all.flatMap((outcome, at) => (outcome === 'stored' ? [at] : []));
    expect(stored.length * text.length).toBeLessThanOrEqual(MAX_QUEUED_BYTES);
    expect(stored.length).toBeGreaterThan(5);
    const heads = await Promise.all(sessions.map(({ id }) => opened.observer.latest({ sessionId: id })));
    expect(heads.flatMap((head, at) => (head === undefined ? [] : [at]))).toEqual(stored);
    for (const [at, session] of sessions.entries()) await session.save({ text: `${at} again` });
  });

  test('[postgres.3] counts commits that bring no text', async () => {
    const { storage, proxy } = await open({ maxQueuedBytes: 50_000, retryForMs: 10_000, timeoutMs: 10_000 });
    proxy.stall();
    const sessionId = 'chat' as SessionId;
    const tag = (name: string) => storage.commit({ sessionId, refs: [{ kind: 'tag', name, target: 'x' }] });
    const outcomes = Array.from({ length: 1_000 }, (_, at) =>
      tag(`tag-${at}`).then(
        () => 1,
        () => 0,
      ),
    );
    expect(await Promise.race([outcomes[0], outcomes[999]])).toBe(0);
    proxy.resume();
    const stored = (await Promise.all(outcomes)).filter((outcome) => outcome === 1);
    expect(stored.length).toBeGreaterThan(0);
    expect(await storage.readRefs({ sessionId })).toHaveLength(stored.length);
  });
});

describe('a batch', () => {
  const change = (name: string, expected?: string) => ({
    kind: 'tag' as const,
    name,
    target: 'x',
    ...(expected !== undefined && { expect: expected }),
  });
  const sessionId = 'chat' as SessionId;

  test.each([0, 1, 3])(
    '[postgres.4] with a commit that is refused stores its neighbours, with %i replies lost',
    async (lost) => {
      const { storage, proxy, observed } = await open({ retryForMs: 5_000 });
      await storage.commit({ sessionId, refs: [change('first')] });
      if (lost > 0) proxy.cutOnNextReply({ skip: lost - 1 });
      const outcomes = await Promise.allSettled(
        Array.from({ length: 10 }, (_, at) =>
          storage.commit({ sessionId, refs: [at === 4 ? change('refused', 'y') : change(`tag-${at}`)] }),
        ),
      );
      expect(outcomes.map(({ status }) => status === 'fulfilled')).toEqual(outcomes.map((_, at) => at !== 4));
      expect(outcomes[4]).toMatchObject({ reason: { code: 'CONFLICT' } });
      const names = (await observed.readRefs({ sessionId })).map(({ name }) => name);
      expect(names).toEqual(['first', ...[0, 1, 2, 3, 5, 6, 7, 8, 9].map((at) => `tag-${at}`)]);
    },
  );

  test('[postgres.4] with a commit that the server cannot take stores its neighbours', async () => {
    const { storage, observed } = await open();
    const incompressible = Array.from({ length: 500 }, (_, at) =>
      String.fromCodePoint(0x4e00 + ((at * 7919) % 20_000)),
    );
    const long = incompressible.join('');
    const bad = { sessionId: long.slice(0, 500) as SessionId, refs: [change(long.slice(0, 499))] };
    const outcomes = await Promise.allSettled([
      storage.commit({ sessionId, refs: [change('before')] }),
      ...Array.from({ length: 8 }, (_, at) => storage.commit({ ...bad, refs: [change(`${at}${long.slice(0, 499)}`)] })),
      storage.commit({ sessionId, refs: [change('after')] }),
    ]);
    expect(outcomes.at(0)?.status).toBe('fulfilled');
    expect(outcomes.at(-1)?.status).toBe('fulfilled');
    expect((await observed.readRefs({ sessionId })).map(({ name }) => name)).toEqual(['after', 'before']);
  });
});

describe('round trips', () => {
  test('[postgres.4] a save is one, also under a lease and with a key', async () => {
    const { manager, proxy } = await open({ timeoutMs: 10_000 });
    const session = await manager.session('chat');
    await session.save({ turn: 0 });
    const countOf = async (work: () => Promise<unknown>) => (await proxy.countDuring(work)).roundTrips;
    for (let turn = 1; turn <= 50; turn++) expect(await countOf(() => session.save({ turn }))).toBe(1);
    await session.lease({ renew: 'manual' });
    expect(await countOf(() => session.save({ turn: 51 }))).toBe(1);
    expect(await countOf(() => session.save({ turn: 52 }, { idempotencyKey: 'k' }))).toBe(1);
    expect(await countOf(() => session.step('pay', () => 'paid'))).toBe(2); // that it began, and how it ended
  });

  test('[postgres.4] the state of a session is one, however long; its recorded steps are one, however many', async () => {
    const { manager, proxy } = await open({ timeoutMs: 10_000 });
    const small = await manager.session('small');
    await small.save({ messages: [] });
    await small.step('step', () => 1);
    const large = await manager.session('large');
    const messages = Array.from({ length: 2_000 }, (_, at) => ({ role: 'user', text: `message ${at} `.repeat(20) }));
    await large.save({ messages });
    await Promise.all(Array.from({ length: 5_000 }, (_, at) => large.step(`step ${at}`, () => at)));
    const countOf = async (sessionId: string) =>
      (await proxy.countDuring(async () => (await manager.session(sessionId)).close())).roundTrips;
    const smallCount = await countOf('small');
    expect(await countOf('large')).toBe(smallCount + 1);
    const resumed = await manager.session('large');
    expect(resumed.state).toEqual({ messages });
    const never = () => Promise.reject(new Error('ran again'));
    const { roundTrips } = await proxy.countDuring(async () => {
      for (let at = 0; at < 5_000; at++) expect(await resumed.step(`step ${at}`, never)).toBe(at);
    });
    expect(roundTrips).toBe(0);
  });
});
