import { Client } from 'pg';
import { describe, expect, onTestFinished, test } from 'vitest';
import { adminClient, createLogin, freshSchema, postgresUrl } from './postgres.ts';
import { PostgresServer, type PostgresServerOptions } from './postgres-server.ts';
import { isProcessRunning } from './process-table.ts';

async function start(options?: PostgresServerOptions): Promise<PostgresServer> {
  const server = await PostgresServer.start(options);
  onTestFinished(() => server.close());
  return server;
}

async function ask(server: PostgresServer, query: string): Promise<unknown> {
  const client = await server.connect();
  const { rows } = await client.query({ text: query, rowMode: 'array' });
  await client.end();
  return rows.flat();
}

describe('a server', () => {
  test('takes settings, and keeps its data and port over a stop', async () => {
    const server = await start({ settings: { log_line_prefix: "it's %p " } });
    const { port } = server;
    expect(await ask(server, 'show log_line_prefix')).toEqual(["it's %p "]);
    expect(await ask(server, 'show fsync')).toEqual(['on']);
    await ask(server, 'create table kept as select 7 as number');
    await server.stop();
    expect(server.isRunning).toBe(false);
    await expect(server.connect()).rejects.toThrow('ECONNREFUSED');
    await server.configure({ work_mem: '5MB' });
    await server.restart();
    expect(server.port).toBe(port);
    expect(await ask(server, 'select number from kept')).toEqual([7]);
    expect(await ask(server, 'show work_mem')).toEqual(['5MB']);
  });

  test('keeps what was committed, and nothing else, when it is killed', async () => {
    const server = await start();
    const client = await server.connect();
    await client.query('create table numbers (number int)');
    await client.query('insert into numbers values (1)');
    await client.query('begin; insert into numbers values (2)');
    const lost = expect(client.query('select pg_sleep(60)')).rejects.toThrow();
    await server.kill();
    await lost;
    await server.restart();
    expect(server.log).toContain('automatic recovery in progress');
    expect(await ask(server, 'select number from numbers')).toEqual([1]);
  });

  test('leaves no process behind when it is killed', async () => {
    const server = await start();
    const pids = (await ask(server, 'select pid from pg_stat_activity where pid <> pg_backend_pid()')) as number[];
    expect(pids.length).toBeGreaterThan(3);
    await server.kill();
    expect(pids.filter(isProcessRunning)).toEqual([]);
  });
});

describe('the server of the run', () => {
  const left = { schema: '', user: '' };

  test('gives a test a schema, an app role and a login of its own', async () => {
    const schema = freshSchema();
    const admin = await adminClient();
    await admin.query(`create schema ${schema}; create table ${schema}.t (a int); create role ${schema}_app`);
    await admin.query(`grant usage on schema ${schema} to ${schema}_app; grant select on ${schema}.t to ${schema}_app`);
    const { user, url } = await createLogin({ memberOf: [`${schema}_app`] });
    const client = new Client({ connectionString: url });
    client.on('error', () => undefined);
    await client.connect();
    await expect(client.query(`drop table ${schema}.t`)).rejects.toThrow('must be owner');
    await client.query('begin'); // and it is left so: that must not keep the schema from going
    await client.query(`select from ${schema}.t`);
    expect((await client.query('select current_user as user')).rows).toEqual([{ user }]);
    Object.assign(left, { schema, user });
  });

  test('has nothing left of it afterwards', async () => {
    expect(left.schema).not.toBe('');
    const client = new Client({ connectionString: postgresUrl() });
    await client.connect();
    const { rows } = await client.query(
      `select (select count(*)::int from pg_namespace where nspname = $1) as schemas,
              (select count(*)::int from pg_roles where rolname in ($1 || '_app', $2)) as roles`,
      [left.schema, left.user],
    );
    await client.end();
    expect(rows).toEqual([{ schemas: 0, roles: 0 }]);
  });
});
