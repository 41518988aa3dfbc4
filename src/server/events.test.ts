import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, onTestFinished, test } from 'vitest';
import { describeOn } from '../../test/support/later.ts';
import { builtFolder } from '../../test/support/on-demand.ts';
import { startServer, type TestServer } from '../../test/support/server.ts';
import { STORAGES, temporaryFolder } from '../../test/support/storages.ts';
import { CheckpointManager } from '../manager/checkpoint-manager.ts';
import { SqliteCheckpointStorage } from '../storage/sqlite/sqlite-storage.ts';
import type { EventsRequest, StreamEvent } from './client/client.ts';

/** Reads events one by one; ends with the test. */
function follow({ client }: TestServer, request: EventsRequest = {}) {
  const stop = new AbortController();
  onTestFinished(() => stop.abort());
  const events = client.events({ ...request, signal: stop.signal });
  const next = async (): Promise<StreamEvent> => (await events.next()).value as StreamEvent;
  const until = async (isWanted: (event: StreamEvent) => boolean): Promise<StreamEvent> => {
    for (;;) {
      const event = await next();
      if (isWanted(event)) return event;
    }
  };
  return { next, until, stop: () => stop.abort() };
}

const isCheckpoint = ({ event }: StreamEvent) => event === 'checkpoint';

describeOn(STORAGES)('events of a %s storage', (_, create) => {
  test('tell what this and other managers save, once each and in order, with ids only', async () => {
    const { storage, reopen } = create();
    const started = await startServer({ storage });
    const { next, until } = follow(started);
    expect(await next()).toMatchObject({ event: 'ready' });
    const other = reopen === undefined ? started.manager : new CheckpointManager({ storage: reopen() });
    if (other !== started.manager) onTestFinished(() => other.close());
    const ids: string[] = [];
    for (const manager of [started.manager, other, started.manager]) {
      const session = await manager.session(`s${ids.length}`);
      ids.push(await session.save({ secret: 'content stays where it is' }));
    }
    const told = new Map<string, StreamEvent>();
    while (told.size < ids.length) {
      const event = await until(isCheckpoint);
      expect(told.has(event.checkpointId ?? '')).toBe(false);
      told.set(event.checkpointId ?? '', event);
    }
    expect([...told.keys()].sort()).toEqual(ids.toSorted());
    expect(JSON.stringify([...told.values()])).not.toContain('content');
    expect(told.get(ids[1] ?? '')).toMatchObject({ sessionId: 's1', branch: 'main' });
  });
});

describe('events', () => {
  test('of another process are told', { timeout: 180_000 }, async () => {
    const path = join(temporaryFolder(), 'test.db');
    const started = await startServer({ storage: new SqliteCheckpointStorage({ path }) });
    const { until, next } = follow(started);
    await next();
    const script = `
      const { open } = await import(${JSON.stringify(`${builtFolder()}/index.js`)});
      const manager = await open(${JSON.stringify(path)});
      await (await manager.session('far')).save({ n: 1 });
      await manager.close();`;
    await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script]);
    expect(await until(isCheckpoint)).toMatchObject({ sessionId: 'far' });
  });

  test('of one session only, names that changed, and what was deleted', async () => {
    const started = await startServer();
    const { manager, client } = started;
    const { until } = follow(started, { session: 'mine' });
    await until(({ event }) => event === 'ready');
    await (await manager.session('other')).save({ n: 1 });
    const id = await (await manager.session('mine')).save({ n: 1 });
    expect(await until(isCheckpoint)).toMatchObject({ sessionId: 'mine', checkpointId: id });
    await client.request('PUT /v1/sessions/{session}/tags/{tag}', {
      params: { session: 'mine', tag: 'v1' },
      body: { checkpoint: id },
    });
    expect(await until(({ event }) => event === 'refs')).toMatchObject({ sessionId: 'mine' });
    await (await manager.session('mine')).save({ n: 2 });
    await client.request('DELETE /v1/sessions/{session}/tags/{tag}', { params: { session: 'mine', tag: 'v1' } });
    await client.request('DELETE /v1/checkpoints/{checkpoint}', { params: { checkpoint: id } });
    expect(await until(({ event }) => event === 'deleted')).toMatchObject({ checkpointId: id });
  });

  test('go on after the last one that was seen; if some are gone, a resync says so', async () => {
    const started = await startServer();
    const first = follow(started);
    await first.next();
    const session = await started.manager.session('a');
    await session.save({ n: 1 });
    const seen = await first.until(isCheckpoint);
    first.stop();
    const missed = [await session.save({ n: 2 }), await session.save({ n: 3 })];
    const second = follow(started, { after: seen.id });
    expect(
      [await second.until(isCheckpoint), await second.until(isCheckpoint)].map(({ checkpointId }) => checkpointId),
    ).toEqual(missed);
    const unknown = follow(started, { after: 'another-time.7' });
    expect(await unknown.next()).toMatchObject({ event: 'resync' });
    for (let n = 0; n < 1_100; n++) await session.save({ n: `x${n}` });
    const late = follow(started, { after: seen.id });
    expect(await late.next()).toMatchObject({ event: 'resync' });
  });

  test('for a client that does not read are not piled up: it gets a resync', async () => {
    const started = await startServer();
    const request = new Request(`${started.url}/v1/events`, { headers: { authorization: `Bearer ${started.token}` } });
    const response = await started.server.fetch(request); // without a socket in between, nothing is read ahead
    const session = await started.manager.session('a');
    for (let n = 0; n < 1_300; n++) await session.save({ n });
    let text = '';
    const decoder = new TextDecoder();
    for await (const bytes of response.body ?? []) {
      text += decoder.decode(bytes as Uint8Array);
      if (text.includes('event: resync')) break;
    }
    expect(text.split('event: checkpoint').length).toBeLessThan(200);
  });

  test('of many saves go to a client together, so that saving does not wait for hundreds of clients', async () => {
    const started = await startServer();
    const request = new Request(`${started.url}/v1/events`, { headers: { authorization: `Bearer ${started.token}` } });
    const reader = ((await started.server.fetch(request)).body ?? new ReadableStream<Uint8Array>()).getReader();
    const sessions = await Promise.all(Array.from({ length: 200 }, (_, n) => started.manager.session(`s-${n}`)));
    const saved = Promise.all(sessions.map((session) => session.save({ n: 1 })));
    const decoder = new TextDecoder();
    let [text, parts] = ['', 0];
    for (; text.split('event: checkpoint').length <= 200; parts++)
      text += decoder.decode((await reader.read()).value ?? new Uint8Array());
    await saved;
    const numbers = [...text.matchAll(/^id: [^.]+\.(\d+)$/gm)].map(([, number]) => Number(number));
    expect(numbers).toEqual([...new Set(numbers)].toSorted((a, b) => a - b));
    expect(parts).toBeLessThan(100);
    await reader.cancel();
  });

  test('end with the server', async () => {
    const started = await startServer();
    const { next } = follow(started);
    await next();
    await started.server.close();
    await expect(next().then((event) => event ?? 'over')).resolves.toBe('over');
  });
});
