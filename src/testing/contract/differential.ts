import type { CheckpointQuery, ChunkStorage, NewCheckpoint } from '../../storage/contract.ts';
import { type IndexedRow, selectRows } from '../../storage/query.ts';
import {
  type Builders,
  type CheckpointParts,
  commitOf,
  deletionOf,
  indexedRowOf,
  rowOf,
  tombstoneRowOf,
} from './builders.ts';
import { assertSame, rule } from './contract-test.ts';

const ROWS = 200;
const QUERIES = 200;

/** Few values, so that filters meet; some are prefixes, look-alikes or other types of each other. */
const NAMES = ['a', 'a-1', 'a-10', 'A', "a'", '%', 'é'] as const;
const VALUES = [1, '1', true, null, 'a', 'a"b', ['a'], { a: 1 }, {}] as const;
const KEYS = ['k', 'K', 'k.k', '__proto__', 'k"', ''] as const;
const TIMES = [0, 1, 1_000, 1_700_000_000_000] as const;

const FIELDS = ['agentId', 'userId', 'status', 'sessionId', 'branch', 'type'] as const;

function randomRow({ random }: Builders): CheckpointParts {
  const metadata = { [random.pick(KEYS)]: random.pick(VALUES), [random.pick(KEYS)]: random.pick(VALUES) };
  const said = FIELDS.filter((_, n) => n > 2 || random.below(2) === 0).map((field) => [field, random.pick(NAMES)]);
  return {
    ...Object.fromEntries(said),
    timestampMs: random.pick(TIMES),
    ...(random.below(2) === 0 && { metadata }),
  };
}

function randomQuery({ random }: Builders, ids: readonly [string, ...string[]]): CheckpointQuery {
  const filters: Partial<CheckpointQuery> = {
    ...Object.fromEntries(FIELDS.map((field) => [field, random.pick(NAMES)])),
    fromMs: random.pick(TIMES),
    toMs: random.pick(TIMES),
    metadata: { [random.pick(KEYS)]: random.pick(VALUES) },
    idPrefix: random.pick(ids).slice(0, random.pick([0, 4, 13, 14, 26])),
    after: random.pick(ids),
    offset: random.pick([0, 1, 7, 1_000]),
  };
  return {
    limit: random.pick([0, 1, 5, 20, 1_000]),
    ...(random.below(2) === 0 && { order: random.pick(['newest', 'oldest']) }),
    ...(random.below(2) === 0 && { include: random.pick(['live', 'all']) }),
    ...Object.fromEntries(Object.entries(filters).filter(() => random.below(6) === 0)),
  };
}

/** Stores rows of which every eighth is deleted again, and gives the reference rows in ascending order. */
async function storeRandomRows(storage: ChunkStorage, make: Builders): Promise<IndexedRow[]> {
  const checkpoints: NewCheckpoint[] = [];
  for (let n = 0; n < ROWS; n++) {
    const parent = n % 2 === 0 ? undefined : checkpoints.at(-1);
    checkpoints.push(make.checkpoint({ ...randomRow(make), ...(parent && { parent }) }));
  }
  await Promise.all(checkpoints.map((checkpoint) => storage.commit(commitOf(checkpoint))));
  const isDoomed = (_: NewCheckpoint, n: number): boolean => n % 8 === 0;
  await storage.deleteCheckpoints(checkpoints.filter(isDoomed).map(deletionOf));
  return checkpoints.map((item, n) => indexedRowOf(isDoomed(item, n) ? tombstoneRowOf(item) : rowOf(item)));
}

export const differentialRules = [
  rule('[storage.8] random queries give what the reference implementation gives', async ({ storage, make }) => {
    const rows = await storeRandomRows(storage, make);
    const [first, ...others] = rows.map((row) => row.id);
    for (let n = 0; n < QUERIES && first !== undefined; n++) {
      const query = randomQuery(make, [first, ...others]);
      const wanted = selectRows(rows, query).map((row) => ({ ...row, header: undefined }));
      assertSame(await storage.listCheckpoints(query), wanted, JSON.stringify(query));
    }
  }),
];
