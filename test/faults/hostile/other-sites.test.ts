import { request as send } from 'node:http';
import { expect, test } from 'vitest';
import type { Random } from '../../../src/testing/contract/random.ts';
import { reportFaults, seededRandom } from '../../support/fault-report.ts';
import { startServer, type TestServer } from '../../support/server.ts';
import { trials } from '../../support/trials.ts';

const PRIVATE = 'what only its owner may read';

type Asked = { readonly method: string; readonly path: string; readonly headers: Record<string, string> };

function pick<Item>(random: Random, items: readonly Item[]): Item {
  return items[random.below(items.length)] as Item;
}

/** A request as the browser of somebody who visits another site would send it, or their own; and whether it is their own. */
function drawRequest(random: Random, { url, token }: Pick<TestServer, 'url' | 'token'>) {
  const { host, port } = new URL(url);
  const foreignHosts = [
    'evil.example',
    '127.0.0.1.nip.io',
    `localhost.evil.example:${port}`,
    '192.0.2.7',
    `${host}.evil.example`,
    '0.0.0.0',
  ];
  const foreignOrigins = [
    'http://evil.example',
    'null',
    `http://${host}.evil.example`,
    'http://127.0.0.1:1',
    'file://',
  ];
  const named = random.below(2) === 0 ? host : pick(random, foreignHosts);
  const origin = pick(random, [undefined, url, ...foreignOrigins]);
  const site = pick(random, [undefined, 'same-origin', 'none', 'same-site', 'cross-site']);
  const authorization = pick(random, [`Bearer ${token}`, `Bearer ${token}`, undefined, `Bearer ${token}x`, 'Basic x']);
  const type = pick(random, [
    'application/json',
    'text/plain',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=x',
  ]);
  const [method, path] = pick(random, [
    ['GET', '/v1/sessions'],
    ['GET', '/v1/sessions/mine/export'],
    ['GET', '/v1/events'],
    ['POST', '/v1/prune'],
    ['PUT', '/v1/sessions/mine/tags/taken'],
    ['DELETE', '/v1/sessions/mine'],
    ['OPTIONS', '/v1/sessions'],
  ] as const);
  const given = { host: named, origin, 'sec-fetch-site': site, authorization, 'content-type': type };
  const headers = Object.fromEntries(
    Object.entries(given).filter((entry): entry is [string, string] => entry[1] !== undefined),
  );
  const isOwn =
    named === host &&
    (origin === undefined || origin === url) &&
    (site === undefined || site === 'same-origin' || site === 'none') &&
    (authorization === `Bearer ${token}` || method === 'OPTIONS'); // which says nothing of what is stored
  return { asked: { method, path, headers }, isOwn };
}

function ask(url: string, { method, path, headers }: Asked): Promise<{ status: number; text: string; cors: unknown }> {
  return new Promise((resolve, reject) => {
    const sent = send(new URL(path, url), { method, headers, agent: false }, (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (part: string) => {
        text += part;
      });
      const cors = response.headers['access-control-allow-origin'];
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text, cors }));
    });
    sent.on('error', reject);
    sent.end(method === 'GET' || method === 'OPTIONS' ? undefined : '{"expect":0}');
  });
}

test('nothing but its own page, with the token, reads or changes anything', async () => {
  const started = await startServer();
  const { manager, url } = started;
  await (await manager.session('mine')).save({ text: PRIVATE }, { status: PRIVATE });
  const random = seededRandom();
  const failures: string[] = [];
  const total = trials(5_000);
  let isAnswered = false;
  for (let trial = 0; trial < total; ) {
    const { asked, isOwn } = drawRequest(random, started);
    if (isOwn) {
      // That the guards let somebody in at all.
      if (asked.path === '/v1/sessions' && asked.method === 'GET')
        isAnswered ||= (await ask(url, asked)).status === 200;
      continue;
    }
    trial++;
    const { status, text, cors } = await ask(url, asked);
    if (status < 400 || status > 499 || cors !== undefined || text.includes(PRIVATE))
      failures.push(`${status} ${cors} for ${JSON.stringify(asked)}: ${text.slice(0, 200)}`);
  }
  const { nodes } = await manager.tree('mine');
  if (nodes.size !== 1 || (await manager.tags('mine')).length > 0) failures.push('something was changed');
  reportFaults('requests of other sites', { trials: total, failures, notes: `seed=${random.seed}` });
  expect(failures).toEqual([]);
  expect(isAnswered).toBe(true);
});
