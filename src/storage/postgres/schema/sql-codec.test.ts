import { expect, test } from 'vitest';
import { adminClient } from '../../../../test/support/postgres.ts';
import { encodeTexts } from './sql-codec.ts';

test.each([
  { texts: [] },
  { texts: [''] },
  { texts: [null] },
  { texts: [null, 'NULL', '', null] },
  { texts: ['{"a":"\\"quoted\\""}', '\\', '"', '{}', '{,}', "'", ' ', '\n\t\r'] },
  { texts: ['é€😀', '\u0001', '\u{10ffff}', 'x'.repeat(100_000)] },
  { texts: Array.from({ length: 1_000 }, (_, at) => `${at}`) },
])('[storage.1] texts reach the server as they are: %j', async ({ texts }) => {
  const admin = await adminClient();
  const { rows } = await admin.query('SELECT $1::text[] AS texts, cardinality($1::text[]) AS count', [
    encodeTexts(texts),
  ]);
  expect(rows).toEqual([{ texts, count: texts.length }]);
});
