import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Pool } from 'pg';
import { describe, expect, onTestFinished, test } from 'vitest';
import { installWithout } from '../../../../test/support/install-without.ts';
import { LATER } from '../../../../test/support/later.ts';
import { adminClient, createLogin, freshSchema, postgresUrl } from '../../../../test/support/postgres.ts';
import type { SessionId } from '../../../core/record/id.ts';
import { CheckpointManager } from '../../../manager/checkpoint-manager.ts';
import { PostgresCheckpointStorage } from '../postgres-storage.ts';
import { migratePostgres } from './migration.ts';
import type { PostgresStorageOptions } from './postgres-connection.ts';
import { SCHEMA_VERSION } from './postgres-schema.ts';

const SESSION = 's' as SessionId;

function open(options: Partial<PostgresStorageOptions> & { schema: string }): PostgresCheckpointStorage {
  const place = options.pool === undefined ? { connectionString: postgresUrl() } : {};
  const storage = new PostgresCheckpointStorage({ ...place, tenant: 'acme', retryForMs: 200, ...options });
  onTestFinished(() => storage.close());
  return storage;
}

describe('the tables', () => {
  test('[postgres.6] ten that start at once make them once', async () => {
    const schema = freshSchema();
    const storages = Array.from({ length: 10 }, () => open({ schema, maxConnections: 2 }));
    await Promise.all(storages.map((storage) => storage.open()));
    const admin = await adminClient();
    const { rows } = await admin.query(`SELECT version FROM "${schema}".version`);
    expect(rows).toEqual(Array.from({ length: SCHEMA_VERSION }, (_, at) => ({ version: at + 1 })));
    await Promise.all(storages.map((storage, at) => storage.commit({ sessionId: `s-${at}` as SessionId })));
    expect(await storages[0]?.listSessions({ limit: 20 })).toHaveLength(10);
  });

  test('[postgres.7] an appRole that row security does not bind is refused', async () => {
    const schema = freshSchema();
    await open({ schema }).open();
    const { rows } = await (await adminClient()).query('SELECT current_user AS login');
    await expect(open({ schema, appRole: rows[0].login }).open()).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      details: { field: 'appRole' },
    });
  });

  test('[postgres.6] a migration that fails leaves nothing behind', async () => {
    const schema = freshSchema();
    const admin = await adminClient();
    await admin.query(`CREATE SCHEMA "${schema}"; CREATE TABLE "${schema}".effect(unexpected integer)`);
    await expect(open({ schema }).open()).rejects.toMatchObject({ code: 'STORAGE' });
    const { rows } = await admin.query(
      'SELECT relname FROM pg_class WHERE relnamespace = $1::regnamespace AND relkind = $2',
      [schema, 'r'],
    );
    expect(rows).toEqual([{ relname: 'effect' }]);
  });

  test('[postgres.6] tables of a newer release are refused, and left alone', async () => {
    const schema = freshSchema();
    await open({ schema }).open();
    const admin = await adminClient();
    await admin.query(`INSERT INTO "${schema}".version(version) VALUES (99)`);
    const refused = {
      code: 'UNSUPPORTED',
      message: expect.stringMatching(new RegExp(`version 99.*up to ${SCHEMA_VERSION}.*Update savestate`)),
    };
    await expect(open({ schema }).open()).rejects.toMatchObject(refused);
    await expect(migratePostgres({ connectionString: postgresUrl(), schema })).rejects.toMatchObject(refused);
  });

  test('[postgres.6] with `migrate: never` missing tables are named, and made by migratePostgres', async () => {
    const schema = freshSchema();
    const storage = open({ schema, migrate: 'never' });
    await expect(storage.open()).rejects.toMatchObject({
      code: 'NOT_FOUND',
      message: expect.stringMatching(/migratePostgres/),
    });
    expect(await migratePostgres({ connectionString: postgresUrl(), schema })).toEqual({ from: 0, to: SCHEMA_VERSION });
    expect(await migratePostgres({ connectionString: postgresUrl(), schema })).toEqual({
      from: SCHEMA_VERSION,
      to: SCHEMA_VERSION,
    });
    await storage.open(); // the same object: a failure to open is not remembered
  });

  test('[postgres.6] tables of earlier versions are updated by the first that opens them', async () => {
    const schema = freshSchema();
    await open({ schema }).open();
    const admin = await adminClient();
    const added = `SELECT oid::regprocedure AS name FROM pg_proc WHERE proname IN ('save_one', 'record_one') AND pronargs > 18 AND pronamespace = $1::regnamespace`;
    const { rows } = await admin.query(added, [schema]);
    const former = `CREATE OR REPLACE FUNCTION "${schema}".commit_one(p_tenant text, p_commit jsonb) RETURNS jsonb LANGUAGE sql AS 'SELECT NULL::jsonb'`;
    const names = rows.map(({ name }) => name).join(', ');
    await admin.query(`DROP FUNCTION ${names}; ${former}; DELETE FROM "${schema}".version WHERE version > 1`);
    const manager = new CheckpointManager({ storage: open({ schema }) });
    const session = await manager.session('s');
    for (const n of [1, 2]) await session.save({ n });
    expect(await session.step('call', () => 7)).toBe(7);
    expect((await admin.query(added, [schema])).rows).toEqual(rows);
    await manager.close();
  });

  test('[postgres.6] any name will do for a schema', async () => {
    const schema = `${freshSchema()} "x" 'y' {s} {raw}`;
    await open({ schema }).commit({ sessionId: SESSION });
    const admin = await adminClient();
    await admin.query(`DROP SCHEMA "${schema.replaceAll('"', '""')}" CASCADE`);
    await admin.query(`DROP ROLE "${schema.replaceAll('"', '""')}_app"`);
  });
});

describe('who connects', () => {
  test('[postgres.7] a login that owns nothing and is granted the role can do everything', async () => {
    const schema = freshSchema();
    await migratePostgres({ connectionString: postgresUrl(), schema });
    const login = await createLogin({ memberOf: [`${schema}_app`] });
    const storage = open({ schema, connectionString: login.url });
    await storage.commit({ sessionId: SESSION, refs: [{ kind: 'tag', name: 'a', target: 'x' }] });
    expect(await storage.collect()).toEqual({ chunks: 0, bytes: 0 });
    expect(await storage.checkIntegrity()).toEqual([]);
    expect(await storage.deleteSession(SESSION)).toBe(true);
  });

  test.each([
    ['older tables', 1, `has tables of version 1; version ${SCHEMA_VERSION} is needed`],
    ['no tables', 0, `has no tables of savestate; version ${SCHEMA_VERSION} is needed`],
  ])('[postgres.6] a login that meets %s and may not make them is told who can', async (_, version, message) => {
    const schema = freshSchema();
    await migratePostgres({ connectionString: postgresUrl(), schema });
    const admin = await adminClient();
    await admin.query(`DELETE FROM "${schema}".version WHERE version > ${version}`);
    const login = await createLogin({ memberOf: [`${schema}_app`] });
    const opening = open({ schema, connectionString: login.url }).open();
    await expect(opening).rejects.toMatchObject({
      code: 'NOT_FOUND',
      message: expect.stringContaining(`${message}. Run migratePostgres once with a role that may create them`),
    });
  });

  test('[postgres.7] a login without rights gets an error that says so', async () => {
    const schema = freshSchema();
    await migratePostgres({ connectionString: postgresUrl(), schema });
    const login = await createLogin();
    await expect(open({ schema, connectionString: login.url }).open()).rejects.toMatchObject({
      code: 'STORAGE',
      message: expect.stringMatching(/does not allow/),
    });
  });

  test('[postgres.7] a login that row-level security does not bind acts as the role, or not at all', async () => {
    const schema = freshSchema();
    const admin = await adminClient();
    await open({ schema }).open();
    const bypassing = await createLogin({ attributes: 'bypassrls' });
    await admin.query(`GRANT USAGE ON SCHEMA "${schema}" TO "${bypassing.user}"`);
    await admin.query(
      `GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA "${schema}" TO "${bypassing.user}"`,
    );
    await expect(open({ schema, connectionString: bypassing.url }).open()).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      message: expect.stringMatching(/not bound by row-level security/),
    });
    await admin.query(`GRANT "${schema}_app" TO "${bypassing.user}"`);
    await open({ schema, connectionString: bypassing.url }).open();
  });

  test('[postgres.7] a pool of the caller is used, with or without a pipeline, and left open', async () => {
    for (const pipeline of [false, true]) {
      const pool = new Pool({ connectionString: postgresUrl(), max: 3, pipeline });
      onTestFinished(() => pool.end());
      const schema = freshSchema();
      const storage = open({ schema, pool });
      await storage.commit({ sessionId: SESSION, refs: [{ kind: 'tag', name: 'a', target: 'x' }] });
      expect(await storage.readRefs()).toMatchObject([{ name: 'a' }]);
      await storage.close();
      const { rows } = await pool.query(
        "SELECT current_setting('savestate.tenant', true) AS tenant, current_user = session_user AS own",
      );
      expect(rows).toEqual([{ tenant: expect.toSatisfy((value) => value === '' || value === null), own: true }]);
    }
  });

  test('[postgres.2] a server that is not there, a wrong user or database: what and where, without the password', async () => {
    const url = new URL(postgresUrl());
    url.password = 'do-not-tell';
    const ways = [
      { change: { port: '1' }, message: /cannot be reached/ },
      { change: { pathname: '/no_such_database' }, message: /no such database/ },
    ];
    for (const { change, message } of ways) {
      const { href } = Object.assign(new URL(url), change);
      const opening = open({ schema: 'savestate', connectionString: href }).open();
      const error = await opening.then(
        () => undefined,
        (reason: Error) => reason,
      );
      expect(error).toMatchObject({ code: 'STORAGE', message: expect.stringMatching(message) });
      expect(`${error?.message} ${JSON.stringify(error)}`).not.toContain('do-not-tell');
    }
  });

  test.each([
    [{ tenant: '' }, /tenant/],
    [{ tenant: undefined }, /tenant/],
    [{ tenant: 'x'.repeat(129) }, /1 to 128 characters; found 129/],
    [{ tenant: 'a\u0000b' }, /tenant/],
    [{ schema: 'pg_mine' }, /must not start/],
    [{ schema: 'x'.repeat(60) }, /59 bytes/],
    [{ connectionString: undefined }, /either a connectionString or a pool/],
    [{ timeoutMs: 0 }, /timeoutMs/],
    [{ maxConnections: 1 }, /maxConnections.*2 or more/],
    [{ maxConnections: 2.5 }, /maxConnections/],
  ])('[postgres.8] options that cannot be right are refused before anything is opened: %o', (wrong, message) => {
    const options = { connectionString: 'postgres://nowhere', tenant: 'acme', ...wrong } as PostgresStorageOptions;
    expect(() => new PostgresCheckpointStorage(options)).toThrow(message);
  });
});

describe('options', () => {
  test.each([
    [{ connectionString: '' }, 'connectionString'],
    [{}, 'connectionString'],
    [{ connectionString: 'postgres://h/d', shema: 's' }, 'shema'],
    [{ connectionString: 'postgres://h/d', schema: 3 }, 'schema'],
    [{ connectionString: 'postgres://h/d', appRole: '' }, 'appRole'],
    [undefined, 'options of migratePostgres'],
  ])('[postgres.8] migratePostgres refuses %j', async (options, named) => {
    await expect(migratePostgres(options as never)).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      message: expect.stringContaining(named),
    });
  });
});

test('[postgres.8] without the package pg everything loads, and what needs it says what to install', LATER, () => {
  const folder = installWithout('pg');
  writeFileSync(
    join(folder, 'a.mjs'),
    `import { migratePostgres, PostgresCheckpointStorage } from 'savestate/postgres';
    import { openPostgresSaverDatabase } from 'savestate/langgraph';
    import { PostgresMemoryStorage } from 'savestate/memory';
    const connectionString = 'postgres://127.0.0.1:1/nowhere';
    const calls = [
      async () => new PostgresCheckpointStorage({ connectionString }),
      () => migratePostgres({ connectionString }),
      () => openPostgresSaverDatabase({ connectionString }),
      async () => new PostgresMemoryStorage({ connectionString, tenant: 't' }),
    ];
    for (const call of calls) console.log(await call().then(() => 'opened', ({ code, message }) => code + ' ' + message));`,
  );
  const said = execFileSync(process.execPath, ['a.mjs'], { cwd: folder, encoding: 'utf8' });
  expect(said.trimEnd().split('\n')).toEqual(
    Array(4).fill('UNSUPPORTED PostgreSQL needs the package pg. Install it: npm install pg'),
  );
});
