import { join } from 'node:path';
import { expect, test } from 'vitest';
import { createClient } from '../../src/server/client/client.ts';
import { LATER } from '../support/later.ts';
import { run } from './support/cli.ts';
import { DATABASE, sharedChat } from './support/fixture.ts';

const chat = sharedChat();

/** Starts a command that serves, asks it something, and stops it with Ctrl-C. */
async function askServer(
  args: readonly string[],
  ask: (started: { url: string; token: string }) => Promise<void>,
  given?: { readonly folder: string },
) {
  const { folder } = given ?? (await chat.copy());
  let asked: Promise<void> | undefined;
  const ran = await run([...args, '--json'], {
    folder,
    env: { BROWSER: 'none' },
    onOutput: (text, kill) => {
      const line = text.split('\n').find((each) => each.startsWith('{') && each.endsWith('}'));
      if (line === undefined || !text.includes('Press Ctrl-C to stop')) return;
      asked ??= ask(JSON.parse(line) as { url: string; token: string }).finally(() => kill('SIGINT'));
    },
  });
  await asked;
  return ran;
}

test('[cli.5] serve answers over HTTP until Ctrl-C, to those who know the token', async () => {
  const { code } = await askServer(['serve', DATABASE, '--read-only'], async ({ url, token }) => {
    expect((await fetch(`${url}/v1/sessions`)).status).toBe(401);
    const client = createClient(url, { token });
    const { items } = await client.request('GET /v1/sessions');
    expect(items.length).toBeGreaterThan(0);
    expect(await client.request('GET /v1/server')).toMatchObject({ isReadOnly: true, kind: 'sqlite' });
    const verified = await client.request('POST /v1/verify', { body: {} });
    expect(verified.status).toBe('clean');
    const fork = client.request('POST /v1/checkpoints/{checkpoint}/fork', {
      params: { checkpoint: items[0]?.headId ?? '' },
      body: {},
    });
    await expect(fork).rejects.toMatchObject({ status: 403, code: 'READ_ONLY' });
  });
  expect(code).toBe(0);
});

test('[cli.5] studio serves its page and prints the address with the token in the fragment', async () => {
  const { code, stdout } = await askServer(['studio', '--no-open'], async ({ url }) => {
    expect((await fetch(url)).status).toBe(200);
  });
  expect(JSON.parse(stdout)).toMatchObject({
    accessUrl: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+\/#token=.{32}$/),
  });
  expect(code).toBe(0);
});

test('[cli.5] with --team, and only with it, a team is run by request', LATER, async () => {
  const team = join(import.meta.dirname, '../../examples/team/team.yaml');
  const params = { session: 'trip' };
  const { folder } = await chat.copy();
  await run(['run', '--team', team, '--session', 'trip', '-n', '2', 'Plan a day in Lisbon'], { folder });
  const ask = async ({ url, token }: { url: string; token: string }) => {
    const client = createClient(url, { token });
    expect(await client.request('GET /v1/server')).toMatchObject({ team: 'team.yaml' });
    const before = await client.request('GET /v1/sessions/{session}/run', { params });
    await client.request('POST /v1/sessions/{session}/run', { params, body: { at: before.headId, rounds: 1 } });
    const read = () => client.request('GET /v1/sessions/{session}/run', { params });
    await expect.poll(async () => (await read()).active?.status, { timeout: 60_000 }).not.toBe('running');
    expect((await read()).active).toMatchObject({ status: 'ended', rounds: 1 });
  };
  const { code, stderr } = await askServer(['serve', DATABASE, '--team', team], ask, { folder });
  expect([code, stderr]).toEqual([0, expect.not.stringContaining('error')]);
  expect((await run(['serve', '--allow-code'], { folder })).stderr).toContain('it goes with --team');
  expect((await run(['serve', '--read-only', '--team', team], { folder })).stderr).toContain('contradict each other');
});

test('[cli.5] a storage that is not there, two storages, and a port that is none are refused', async () => {
  const { folder } = await chat.copy();
  expect((await run(['serve', 'nowhere.db'], { folder })).code).toBe(10);
  expect((await run(['serve', DATABASE, '--storage', DATABASE], { folder })).stderr).toContain('Name the storage once');
  expect((await run(['serve', '--port', '70000'], { folder })).stderr).toContain('65535');
  const outside = await run(['serve', '--host', '203.0.113.1'], { folder });
  expect([outside.code, outside.stderr]).toEqual([1, expect.stringContaining('Cannot listen on 203.0.113.1')]);
});
