import { randomUUID } from 'node:crypto';
import { Client, Pool } from 'pg';
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { IS_FULL, reportFaults, seededRandom } from '../../../../test/support/fault-report.ts';
import { adminClient, createLogin, freshSchema, postgresUrl } from '../../../../test/support/postgres.ts';
import type { CheckpointId, SessionId } from '../../../core/record/id.ts';
import { createChunk, type Digest } from '../../../core/tree/chunk.ts';
import { CheckpointManager } from '../../../manager/checkpoint-manager.ts';
import type { ChunkStorage } from '../../contract.ts';
import { PostgresCheckpointStorage } from '../postgres-storage.ts';
import { migratePostgres } from './migration.ts';

const TABLES = ['session', 'chunk', 'checkpoint', 'ref', 'effect'] as const;
const schema = freshSchema();
const pool = new Pool({ connectionString: postgresUrl(), max: 2 });

beforeAll(async () => {
  await migratePostgres({ connectionString: postgresUrl(), schema });
  return () => pool.end();
});

/** Two tenants on one pool of two connections, so that each connection serves both in turn. */
function openAs(tenant: string): PostgresCheckpointStorage {
  const storage = new PostgresCheckpointStorage({ pool, schema, tenant });
  onTestFinished(() => storage.close());
  return storage;
}

async function fill(storage: ChunkStorage, mark: string): Promise<void> {
  const manager = new CheckpointManager({ storage });
  const session = await manager.session(`session of ${mark}`);
  await session.step('plan', () => `result of ${mark} `.repeat(100));
  const id = await session.save(
    { secretOf: mark, text: `text of ${mark} `.repeat(200) },
    { userId: mark, agentId: mark },
  );
  await session.save({ secretOf: mark, more: true }, { userId: mark });
  await manager.tag(id, `tag of ${mark}`);
  await manager.fork(id, { branch: `branch of ${mark}` });
  await session.close();
}

/** Everything the tenant can read, as one text. */
async function readAll(storage: ChunkStorage): Promise<string> {
  const rows = await storage.listCheckpoints({ limit: 1000, include: 'all' });
  const sessions = await storage.listSessions({ limit: 1000 });
  return JSON.stringify({
    rows,
    sessions,
    checkpoints: await Promise.all(rows.map(({ id }) => storage.readCheckpoint(id))),
    chunks: await storage.readChunks(await storage.listChunks({ limit: 1000 })),
    effects: await Promise.all(sessions.map((sessionId) => storage.readEffects({ sessionId }))),
    refs: await storage.readRefs(),
  });
}

describe('row-level security', () => {
  test('[postgres.8] is forced on every table that holds rows of tenants, and there is no view', async () => {
    const admin = await adminClient();
    const { rows } = await admin.query(
      "SELECT relname, relrowsecurity AND relforcerowsecurity AS forced, relkind FROM pg_class WHERE relnamespace = $1::regnamespace AND relkind IN ('r', 'v', 'm', 'p') ORDER BY relname",
      [schema],
    );
    expect(rows.filter(({ relname }) => relname !== 'version')).toEqual(
      TABLES.toSorted().map((relname) => ({ relname, forced: true, relkind: 'r' })),
    );
  });

  test('[postgres.8] every key and every index begins with the tenant, but the one that only watching uses', async () => {
    const admin = await adminClient();
    const { rows } = await admin.query(
      `SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_class t ON t.oid = i.indrelid
         JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = i.indkey[0]
       WHERE t.relnamespace = $1::regnamespace AND a.attname <> 'tenant'`,
      [schema],
    );
    expect(rows.map(({ relname }) => relname).toSorted()).toEqual(['checkpoint_stored', 'version_pkey']);
  });

  test('[postgres.8] without a tenant, or with an empty one, nothing is seen and nothing can be written', async () => {
    const tenant = randomUUID();
    await fill(openAs(tenant), 'someone');
    const login = await createLogin({ memberOf: [`${schema}_app`] });
    const client = new Client({ connectionString: login.url });
    await client.connect();
    onTestFinished(() => client.end());
    for (const table of TABLES) {
      const count = `SELECT count(*)::integer AS n FROM "${schema}".${table}`;
      const fresh = new Client({ connectionString: login.url });
      await fresh.connect();
      await expect(fresh.query(count)).rejects.toThrow(/savestate.tenant/); // never set: an error
      await fresh.end();
      await client.query('BEGIN');
      await client.query("SELECT set_config('savestate.tenant', $1, true)", [tenant]);
      expect((await client.query(count)).rows[0].n).toBeGreaterThan(0);
      await client.query('COMMIT');
      // After a committed SET LOCAL the setting is '', not unset.
      expect((await client.query(count)).rows[0].n).toBe(0);
      await client.query("SELECT set_config('savestate.tenant', 'someone else', false)");
      expect((await client.query(count)).rows[0].n).toBe(0);
      await client.query('RESET ALL');
    }
    for (const setting of ['', 'b']) {
      await client.query("SELECT set_config('savestate.tenant', $1, false)", [setting]);
      for (const written of ['', 'a', tenant])
        await expect(client.query(`INSERT INTO "${schema}".session VALUES ($1, 's')`, [written])).rejects.toThrow(
          /row-level security/,
        );
    }
  });

  test('[postgres.8] the owner of the tables sees no more than a tenant', async () => {
    const owned = freshSchema();
    const admin = await adminClient();
    const owner = await createLogin();
    await admin.query(`CREATE SCHEMA "${owned}" AUTHORIZATION "${owner.user}"`);
    await migratePostgres({ connectionString: owner.url, schema: owned });
    const storage = new PostgresCheckpointStorage({ connectionString: owner.url, schema: owned, tenant: 'a' });
    await fill(storage, 'a');
    await storage.close();
    const other = new PostgresCheckpointStorage({ connectionString: owner.url, schema: owned, tenant: 'b' });
    expect(await readAll(other)).toBe(await readAll(openAs(randomUUID())));
    await other.close();
    const client = new Client({ connectionString: owner.url });
    await client.connect();
    await client.query("SELECT set_config('savestate.tenant', 'b', false)");
    expect((await client.query(`SELECT 1 FROM "${owned}".checkpoint`)).rows).toEqual([]);
    await client.end();
  });

  test('[postgres.8] the role of the application owns nothing, cannot log in and cannot pass over the policies', async () => {
    const admin = await adminClient();
    const { rows } = await admin.query(
      'SELECT rolcanlogin, rolsuper, rolbypassrls, rolcreaterole, rolcreatedb, (SELECT count(*)::integer FROM pg_class WHERE relowner = r.oid) AS owned FROM pg_roles r WHERE rolname = $1',
      [`${schema}_app`],
    );
    const not = { rolcanlogin: false, rolsuper: false, rolbypassrls: false, rolcreaterole: false, rolcreatedb: false };
    expect(rows).toEqual([{ ...not, owned: 0 }]);
  });
});

test('[postgres.9] equal chunks of two tenants are stored twice, and collecting one leaves the other', async () => {
  const [a, b] = [openAs(randomUUID()), openAs(randomUUID())];
  const chunk = createChunk({ text: JSON.stringify('shared '.repeat(100)), refs: [] });
  for (const storage of [a, b]) await storage.commit({ sessionId: 's' as SessionId, chunks: [chunk] });
  expect((await a.collect()).chunks).toBe(1);
  expect(await a.readChunks([chunk.digest])).toEqual([undefined]);
  expect(await b.readChunks([chunk.digest])).toEqual([chunk]);
});

test('[postgres.9] no call of one tenant reads, changes or counts anything of another', async () => {
  const random = seededRandom();
  const [mine, theirs] = [openAs(randomUUID()), openAs(randomUUID())];
  await fill(mine, 'mine');
  await fill(theirs, 'theirs');
  const before = await readAll(theirs);
  const known = {
    ids: (await theirs.listCheckpoints({ limit: 100 })).map(({ id }) => id),
    digests: await theirs.listChunks({ limit: 100 }),
    session: 'session of theirs' as SessionId,
  };
  const trials = IS_FULL ? 10_000 : 500;
  const failures: string[] = [];
  for (let trial = 0; trial < trials; trial++) {
    const calls = Object.entries(crossTenantCalls(mine, known, random));
    const [name, call] = calls[random.below(calls.length)] ?? ['', () => Promise.resolve()];
    const answer = JSON.stringify((await call().catch((error: Error) => error.message)) ?? null);
    if (/theirs/.test(answer.replaceAll('session of theirs', ''))) failures.push(`${name}: ${answer.slice(0, 200)}`);
  }
  reportFaults('cross-tenant calls', { trials, failures });
  expect(failures).toEqual([]);
  expect(await readAll(theirs)).toBe(before);
});

type Known = {
  readonly ids: readonly CheckpointId[];
  readonly digests: readonly Digest[];
  readonly session: SessionId;
};
type Random = ReturnType<typeof seededRandom>;

const pickFrom = <Item>(items: readonly Item[], random: Random): Item => items[random.below(items.length)] as Item;

/** Calls of one tenant that name what is another's. What they may answer says nothing of it. */
function crossTenantCalls(storage: ChunkStorage, known: Known, random: Random): Record<string, () => Promise<unknown>> {
  const manager = new CheckpointManager({ storage });
  const id = pickFrom(known.ids, random);
  const digest = pickFrom(known.digests, random);
  return {
    readCheckpoint: () => storage.readCheckpoint(id),
    load: () => manager.load(id),
    restore: () => manager.restore(id.slice(0, 20)),
    readChunks: () => storage.readChunks([digest]),
    readReachable: () => storage.readReachable([digest]),
    listBySession: () => storage.listCheckpoints({ sessionId: known.session, limit: 100, include: 'all' }),
    listByUser: () => storage.listCheckpoints({ userId: 'theirs', limit: 100 }),
    listByPrefix: () =>
      storage.listCheckpoints({ idPrefix: 'chk_', limit: 100, order: random.pick(['newest', 'oldest']) }),
    readRefs: () =>
      storage.readRefs(
        random.pick<Parameters<ChunkStorage['readRefs']>[0]>([{}, { sessionId: known.session }, { kind: 'tag' }]),
      ),
    readDue: () => storage.readDue({ before: '\u{10ffff}', limit: 100 }),
    readEffects: () => storage.readEffects({ sessionId: known.session }),
    listSessions: () => storage.listSessions({ limit: 100 }),
    listChunks: () => storage.listChunks({ limit: 100 }).then((all) => all.includes(digest) && 'theirs'),
    stats: async () => (await storage.stats()).sessions === 1 || 'theirs are counted',
    fork: () => manager.fork(id),
    tag: () => manager.tag(id, 'mine now'),
    compare: () => manager.compare(id, pickFrom(known.ids, random)),
    exportSession: () => manager.exportSession(known.session).next(),
    requireIt: () => storage.commit({ sessionId: 'mine' as SessionId, requires: [id] }),
    deleteCheckpoints: () => storage.deleteCheckpoints([{ id, body: '{}' }], { force: true }),
    deleteSession: () => storage.deleteSession(known.session),
    clearUser: () => manager.clearUserHistory('theirs'),
    collect: () => storage.collect(),
    checkIntegrity: () => storage.checkIntegrity(),
  };
}
