import { expect, test } from 'vitest';
import type { Query } from '../database/postgres-database.ts';
import { RowPages } from './row-pages.ts';

/** A table of so many rows on a server that takes so long for each; notes how many each statement asked for. */
function slowTable(count: number, msPerRow: (at: number) => number) {
  const asked: number[] = [];
  let nowMs = 0;
  const query = (async (sql: string, [after]: readonly number[]) => {
    const at = after ?? 0;
    asked.push(Number(sql));
    nowMs += Number(sql) * msPerRow(at);
    return at >= count ? [] : [{ at: Math.min(count, at + Number(sql)) }];
  }) as unknown as Query;
  const source = { sql: String, values: [], key: ['at'], start: [0] };
  return { asked, query, source, pages: new RowPages(undefined, () => nowMs) };
}

async function readAll({ query, source, pages }: ReturnType<typeof slowTable>): Promise<number> {
  let last = 0;
  for await (const { at } of pages.read<{ at: number }>(query, source)) last = at;
  return last;
}

test('[storage.16] a fast server is asked for more rows, up to a thousand', async () => {
  const table = slowTable(50_000, () => 0.01);
  expect(await readAll(table)).toBe(50_000);
  expect(table.asked.slice(0, 6)).toEqual([100, 200, 400, 800, 1_000, 1_000]);
});

test('[storage.16] a server that becomes slow is asked for so few that no statement takes long', async () => {
  const table = slowTable(10_000, (at) => (at < 5_000 ? 0.01 : 20));
  expect(await readAll(table)).toBe(10_000);
  const slow = table.asked.slice(-100);
  expect(Math.max(...slow) * 20).toBeLessThanOrEqual(500);
  expect(Math.min(...slow)).toBeGreaterThanOrEqual(10);
});
