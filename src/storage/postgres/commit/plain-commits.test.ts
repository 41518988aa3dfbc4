import { describe, expect, onTestFinished, test } from 'vitest';
import { adminClient, freshSchema, postgresUrl } from '../../../../test/support/postgres.ts';
import { CheckpointManager } from '../../../manager/checkpoint-manager.ts';
import { Builders, session } from '../../../testing/contract/builders.ts';
import type { ChunkStorage, Commit, EffectRow, RefChange } from '../../contract.ts';
import { InMemoryCheckpointStorage } from '../../memory/memory-storage.ts';
import { PostgresCheckpointStorage } from '../postgres-storage.ts';

const SESSION = session('s-1');

function openPostgres(schema: string, tenant: string): PostgresCheckpointStorage {
  const storage = new PostgresCheckpointStorage({ connectionString: postgresUrl(), schema, tenant });
  onTestFinished(() => storage.close());
  return storage;
}

const at = (kind: 'branch' | 'lease' | 'log', target: string | null): RefChange => ({
  kind,
  name: 'main',
  expect: target,
  target,
});
const next = (from: number): RefChange => ({ kind: 'log', name: 'main', expect: `${from}`, target: `${from + 1}` });

/** A session with one step that ended, under a lease, on a branch that is somewhere; another session has a step, too. */
function prepare(make: Builders) {
  const first = make.effect({ ordinal: 0 });
  const other = make.effect({ ordinal: 1, sessionId: 's-2' });
  const refs = (['lease', 'branch'] as const).map((kind) => ({ kind, name: 'main', target: 'held' }));
  const commits: Commit[] = [
    { sessionId: SESSION, effects: [first], refs: [...refs, { kind: 'log', name: 'main', target: '1' }] },
    { sessionId: session('s-2'), effects: [other], refs: [{ kind: 'log', name: 'main', target: '1' }] },
  ];
  return { first, other, commits };
}

type Case = { readonly what: string; readonly commit: (first: EffectRow, make: Builders) => Omit<Commit, 'sessionId'> };

const begin = (refs: readonly RefChange[], ordinal = 1): Case['commit'] => {
  return (_, make) => ({ effects: [make.effect({ ordinal })], refs });
};
const end = (refs: readonly RefChange[], result = '7', chunkText?: string): Case['commit'] => {
  return (first, make) => {
    const chunks = chunkText === undefined ? [] : [make.chunk([], chunkText)];
    const content = { text: result, refs: chunks.map(({ digest }) => digest) };
    return { effects: [{ ...make.effect({ ordinal: 0, result: content }), expect: first.digest }], chunks, refs };
  };
};
const instead = (change: (row: EffectRow, make: Builders) => object): Case['commit'] => {
  return (first, make) => ({ effects: [{ ...make.effect({ ordinal: 0 }), ...change(first, make) }] });
};

const CASES: readonly Case[] = [
  { what: 'a begin', commit: begin([next(1)]) },
  { what: 'a begin under a lease, on a branch', commit: begin([at('lease', 'held'), next(1), at('branch', 'held')]) },
  { what: 'a begin at a place that is taken', commit: begin([next(1)], 0) },
  { what: 'a begin behind a step that is not there', commit: begin([next(2)], 2) },
  { what: 'a begin under a lease that is over', commit: begin([at('lease', 'lost'), next(1)]) },
  { what: 'a begin on a branch that moved', commit: begin([next(1), at('branch', 'before')]) },
  { what: 'a begin on a branch that should not be there', commit: begin([next(1), at('branch', null)]) },
  { what: 'a begin on a branch that should be at nothing', commit: begin([next(1), at('branch', '')]) },
  { what: 'a begin that looks at the log only', commit: begin([at('log', '1')]) },
  { what: 'a begin without a look at the log', commit: begin([]) },
  { what: 'a begin that clears the log', commit: begin([{ kind: 'log', name: 'main', expect: '1', target: null }]) },
  { what: 'an end', commit: end([]) },
  { what: 'an end with a text that PostgreSQL cannot take', commit: end([], '"\u0000\ud800"') },
  { what: 'an end with a chunk', commit: end([at('lease', 'held')], '{"$":0}', '"long"') },
  { what: 'an end under a lease that is over', commit: end([at('lease', 'lost')]) },
  { what: 'an end that takes a place', commit: end([next(1)]) },
  { what: 'an end with a look at the log', commit: end([at('log', '1')]) },
  { what: 'an end with a tag', commit: end([{ kind: 'tag', name: 'main', target: 'x' }]) },
  { what: 'an end of a step that was replaced', commit: instead((_, make) => ({ expect: make.chunk().digest })) },
  { what: 'an end where nothing stands', commit: instead(({ digest }) => ({ ordinal: 9, expect: digest })) },
  { what: 'an end where nothing may stand', commit: instead(() => ({ expect: null })) },
  { what: 'an end on another branch', commit: instead(({ digest }) => ({ branch: 'b', expect: digest })) },
];

/** What a commit came to, and what is there afterwards. */
async function outcomeOf(storage: ChunkStorage, { commit }: Case) {
  const make = new Builders();
  const { first, commits } = prepare(make);
  for (const one of commits) await storage.commit(one);
  const given = { sessionId: SESSION, ...commit(first, make) };
  const said = await storage.commit(given).catch(({ code, message, details }) => ({ code, message, details }));
  const chunks = await storage.readChunks(given.chunks?.map(({ digest }) => digest) ?? []);
  const effects = [SESSION, session('s-2')].map((sessionId) => storage.readEffects({ sessionId }));
  return { said, chunks, refs: await storage.readRefs(), effects: await Promise.all(effects) };
}

describe('a commit that a function of its own does', () => {
  const schema = freshSchema();

  test.each(CASES)('[storage.12] $what comes to what it comes to in memory', async (one) => {
    const storage = openPostgres(schema, one.what);
    expect(await outcomeOf(storage, one)).toEqual(await outcomeOf(new InMemoryCheckpointStorage(), one));
  });

  test('[storage.12] steps and saves behind the first need no other one', async () => {
    const own = freshSchema();
    const manager = new CheckpointManager({ storage: openPostgres(own, 'steps and saves') });
    const started = await manager.session('s');
    await started.step('a', () => 1);
    await started.save({ n: 1 });
    const admin = await adminClient();
    await admin.query(`DROP FUNCTION "${own}".commit_batch, "${own}".commit_one`);
    expect(await started.step('b', () => ({ long: 'x'.repeat(5_000) }))).toMatchObject({ long: /^x+$/ });
    await expect(started.step('c', () => Promise.reject(new Error('no')))).rejects.toThrow('no');
    expect(await started.step('c', ({ attempt }) => attempt)).toBe(2);
    await started.save({ n: 2 });
    expect(await (await manager.session('s')).step('d', () => 4)).toBe(4);
  });
});
