import { Client } from 'pg';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { PostgresPair } from './postgres-pair.ts';
import { TcpProxy } from './tcp-proxy.ts';

const WRITERS = 4;

async function start(synchronous: boolean): Promise<PostgresPair> {
  const pair = await PostgresPair.start({ synchronous });
  onTestFinished(() => pair.close());
  const admin = await pair.primary.connect();
  await admin.query('create table numbers (number int primary key)');
  await admin.end();
  return pair;
}

async function numbersOf(url: string): Promise<number[]> {
  const client = new Client({ connectionString: url });
  await client.connect();
  const { rows } = await client.query<{ number: number }>('select number from numbers order by number');
  await client.end();
  return rows.map(({ number }) => number);
}

/** Inserts numbers, one commit each, until the server dies; answers those it confirmed. */
async function insertUntilLost(url: string, { from, onConfirmed }: { from: number; onConfirmed: () => unknown }) {
  const confirmed: number[] = [];
  const client = new Client({ connectionString: url });
  client.on('error', () => undefined);
  await client.connect();
  for (let number = from; ; number += WRITERS) {
    try {
      await client.query('insert into numbers values ($1)', [number]);
    } catch {
      return confirmed;
    }
    confirmed.push(number);
    onConfirmed();
  }
}

describe('a pair', () => {
  test.each([1, 2, 3])('has every confirmed commit after a failover, when it is synchronous (%i)', async () => {
    const pair = await start(true);
    let confirmedCount = 0;
    const onConfirmed = () => confirmedCount++;
    const url = pair.primary.url();
    const writers = Array.from({ length: WRITERS }, (_, from) => insertUntilLost(url, { from, onConfirmed }));
    await vi.waitUntil(() => confirmedCount >= 200, { interval: 1, timeout: 60_000 });
    await pair.killPrimary();
    const confirmed = (await Promise.all(writers)).flat();
    const tookMs = await pair.promote();
    expect(tookMs).toBeGreaterThan(0);
    const found = new Set(await numbersOf(pair.standby.url()));
    expect(confirmed.length).toBeGreaterThanOrEqual(200);
    expect(confirmed.filter((number) => !found.has(number))).toEqual([]);
    expect(found.size - confirmed.length).toBeLessThanOrEqual(WRITERS); // one each may have got in unheard
  });

  test('has what the standby had seen, when it is asynchronous, and takes writes afterwards', async () => {
    const pair = await start(false);
    const client = await pair.primary.connect();
    await client.query('insert into numbers values (1)');
    await client.end();
    await pair.waitUntilCaughtUp();
    await pair.killPrimary();
    await pair.promote();
    const promoted = await pair.standby.connect();
    await promoted.query('insert into numbers values (2)');
    await promoted.end();
    expect(await numbersOf(pair.standby.url())).toEqual([1, 2]);
  });

  test('does not confirm a commit the standby does not have, when it is synchronous', async () => {
    const pair = await start(true);
    await pair.standby.kill();
    const client = await pair.primary.connect();
    const unconfirmed = expect(client.query('insert into numbers values (1)')).rejects.toThrow();
    const observer = await pair.primary.connect();
    const isWaiting = async () =>
      (await observer.query(`select from pg_stat_activity where wait_event = 'SyncRep'`)).rowCount === 1;
    await expect.poll(isWaiting).toBe(true);
    await pair.killPrimary();
    await unconfirmed;
  });

  test('can be reached by one address before and after', async () => {
    const pair = await start(true);
    const proxy = await TcpProxy.listen({ target: pair.primary });
    onTestFinished(() => proxy.close());
    const url = proxy.urlFor(pair.primary.url());
    const client = new Client({ connectionString: url });
    client.on('error', () => undefined);
    await client.connect();
    await client.query('insert into numbers values (7)');
    await pair.killPrimary();
    await expect(client.query('select 1')).rejects.toThrow();
    proxy.retarget(pair.standby);
    await pair.promote();
    expect(await numbersOf(url)).toEqual([7]);
  });
});
