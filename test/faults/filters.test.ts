import { describe, expect, onTestFinished, test } from 'vitest';
import { SavestateError } from '../../src/core/errors.ts';
import type { ListFilter, ListPage } from '../../src/manager/branch/history.ts';
import { CheckpointManager } from '../../src/manager/checkpoint-manager.ts';
import { InMemoryCheckpointStorage } from '../../src/storage/memory/memory-storage.ts';
import { createRandom, type Random } from '../../src/testing/contract/random.ts';
import { reportFaults } from '../support/fault-report.ts';
import { STORAGES } from '../support/storages.ts';
import { trials } from '../support/trials.ts';

/** What a query language could take for its own: quotes, paths, patterns, operators, and what broke other people's savers. */
const TEXTS = [
  'a',
  'A',
  "a' OR '1'='1",
  "x') OR '1'='1",
  'a"."b',
  '$.a',
  'a.b',
  "'; DROP TABLE checkpoints; --",
  '%',
  '_',
  'a%',
  '*',
  '?',
  '\\',
  '[0]',
  "'",
  '"',
  '`',
  '{"$gt":1}',
  'null',
  '1',
  ' UNION SELECT 1',
  '}) | (@t:{*',
  'é',
  '\u{1F600}',
  '--',
  '/*',
  ';',
  '__proto__',
  'constructor',
] as const;
const VALUES: readonly unknown[] = [...TEXTS, 1, 0, -1, true, false, null, { a: 1 }, { $gt: 0 }, ['a'], [], {}];

const anyOf = <Item>(random: Random, items: readonly Item[]): Item => items[random.below(items.length)] as Item;

function drawFilter(random: Random): ListFilter {
  const maybe = <Value>(value: () => Value) => (random.below(4) === 0 ? value() : undefined);
  const text = () => anyOf(random, TEXTS);
  return {
    sessionId: maybe(text),
    userId: maybe(text),
    agentId: maybe(text),
    type: maybe(text),
    status: maybe(text),
    branch: maybe(text),
    metadata: random.below(2) === 0 ? { [text()]: anyOf(random, VALUES) } : undefined,
  };
}

function drawPage(random: Random): ListPage {
  const limits: readonly unknown[] = [1, 5, 50, 0, -1, 1.5, '1; DROP TABLE x', Number.NaN, 1e9];
  const orders: readonly unknown[] = ['newest', 'oldest', undefined, 'id; --', "newest' --"];
  return {
    limit: anyOf(random, limits),
    order: anyOf(random, orders),
    ...(random.below(8) === 0 && { cursor: anyOf(random, TEXTS) }),
  } as ListPage;
}

async function fill(manager: CheckpointManager): Promise<void> {
  const random = createRandom(7);
  for (const [n, text] of TEXTS.entries()) {
    const session = await manager.session(anyOf(random, TEXTS), { onConflict: 'branch' });
    const metadata = { [text]: anyOf(random, VALUES), [anyOf(random, TEXTS)]: anyOf(random, VALUES) };
    await session.save(
      { n },
      {
        userId: anyOf(random, TEXTS),
        agentId: anyOf(random, TEXTS),
        type: anyOf(random, TEXTS),
        status: text,
        metadata,
      },
    );
  }
}

/** What a query finds, or which error it is refused with. */
async function ask(manager: CheckpointManager, filter: ListFilter, page: ListPage): Promise<string> {
  try {
    const { checkpoints } = await manager.list(filter, page);
    return checkpoints.map(({ sessionId, status }) => `${sessionId} ${status}`).join(';');
  } catch (error) {
    return error instanceof SavestateError ? `${error.code} ${error.message}` : `raw ${error}`;
  }
}

describe.each(STORAGES.filter(([name]) => name !== 'memory'))('filters on %s', (name, create) => {
  test('[storage.9] select what they name and nothing else, whatever is in keys, values, limits and orders', async () => {
    const open = (storage: ReturnType<typeof create>['storage']) => {
      let nowMs = Date.UTC(2026, 0, 1);
      const manager = new CheckpointManager({ storage, now: () => nowMs++, retention: { types: {} } });
      onTestFinished(() => manager.close());
      return manager;
    };
    const [given, model] = [open(create().storage), open(new InMemoryCheckpointStorage())];
    for (const manager of [given, model]) await fill(manager);
    const failures: string[] = [];
    const total = trials(5_000);
    for (let seed = 1; seed <= total; seed++) {
      const random = createRandom(seed);
      const [filter, page] = [drawFilter(random), drawPage(random)];
      const [found, expected] = [await ask(given, filter, page), await ask(model, filter, page)];
      if (found !== expected || found.startsWith('raw'))
        failures.push(`seed ${seed}: ${JSON.stringify([filter, page])}: ${found}, not ${expected}`);
    }
    reportFaults(`hostile filters on ${name}`, { trials: total, failures });
    expect(failures).toEqual([]);
    expect((await given.verify()).findings).toEqual([]);
  });
});
