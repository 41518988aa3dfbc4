import { expect, onTestFinished, test } from 'vitest';
import { freshSchema } from '../support/postgres.ts';
import { PostgresServer } from '../support/postgres-server.ts';
import { openProxied } from '../support/proxied-postgres.ts';

const SCHEMA = freshSchema();

/** A server that writes to its disk nothing that nobody waits for. */
async function startLazyServer(): Promise<PostgresServer> {
  const server = await PostgresServer.start({ settings: { wal_writer_delay: '10s' } });
  onTestFinished(() => server.close());
  return server;
}

const OPTIONS = { schema: SCHEMA, retryForMs: 20_000, timeoutMs: 5_000 };

test('[postgres.5] a step that ends after a crash of the server is recorded for good, and its session goes on', async () => {
  const server = await startLazyServer();
  const { manager, observer } = await openProxied({ ...OPTIONS, url: server.url() });
  const session = await manager.session('chat');
  await session.save({ turn: 1 });
  const paid = await session.step('pay', async () => {
    await server.kill();
    await server.restart();
    return 'paid';
  });
  expect(paid).toBe('paid');
  expect(await session.step('tell', () => 'told')).toBe('told');
  const resumed = await manager.session('chat');
  const never = () => Promise.reject(new Error('ran again'));
  expect([await resumed.step('pay', never), await resumed.step('tell', never)]).toEqual(['paid', 'told']);
  expect((await observer.verify({ readData: true })).findings).toEqual([]);
});
