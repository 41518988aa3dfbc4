import assert from 'node:assert/strict';
import { checkChunk, createChunk, type Digest } from '../../src/core/tree/chunk.ts';
import type { ChunkStorage, NewCheckpoint } from '../../src/storage/contract.ts';
import { FileCheckpointStorage } from '../../src/storage/file/file-storage.ts';
import type { FileSystem } from '../../src/storage/file/file-system.ts';
import { InMemoryCheckpointStorage } from '../../src/storage/memory/memory-storage.ts';
import { Builders, commitOf, contentOf, deletionOf, moveBranch, session } from '../../src/testing/contract/builders.ts';
import { readAll } from '../../src/testing/contract/contract-test.ts';
import type { CrashState, SimulatedDisk } from '../support/simulated-disk.ts';

export const PATH = '/data/store';

type Step = (storage: ChunkStorage) => Promise<unknown>;

/** A life of a store, in steps that each happen as a whole: saves, forks, effects, retries, deletions, collections. */
export function scriptSteps(seed: number): Step[] {
  const make = new Builders(seed);
  const steps: Step[] = [];
  const shared = make.chunk([], JSON.stringify('shared '.repeat(make.random.below(50))));
  let head: NewCheckpoint | undefined;
  const save = (sessionId: string, key?: string): NewCheckpoint => {
    const [leaf, before] = [make.chunk(), head];
    const node = createChunk(contentOf(leaf, shared));
    const checkpoint = make.checkpoint({
      sessionId,
      root: contentOf(node),
      ...(before && { parent: before }),
      ...(key !== undefined && { idempotencyKey: key }),
    });
    const expect = before?.header.sessionId === checkpoint.header.sessionId ? before.header.id : null;
    const refs = [moveBranch('main', checkpoint, expect)];
    const effects = [make.effect({ sessionId, ordinal: steps.length, result: contentOf(leaf) })];
    const requires = before ? [before.header.id] : [];
    const commit = commitOf(checkpoint, { chunks: [leaf, shared, node], refs, requires, effects });
    steps.push((storage) => storage.commit(commit));
    if (key !== undefined) steps.push((storage) => storage.commit(commit));
    head = checkpoint;
    return checkpoint;
  };
  const first = save('a');
  const second = save('a', 'once');
  const third = save('a');
  save('B/..');
  steps.push((storage) => storage.deleteCheckpoints([deletionOf(first), deletionOf(second), deletionOf(third)]));
  steps.push((storage) => storage.collect());
  steps.push((storage) => storage.deleteSession(session('a')));
  head = undefined;
  const again = save('a');
  steps.push((storage) => storage.deleteCheckpoints([deletionOf(again)], { force: true }));
  steps.push((storage) => storage.collect());
  return steps;
}

/** What can be read after each number of steps, according to the in-memory storage. */
export async function expectedStates(steps: readonly Step[]): Promise<string[]> {
  const model = new InMemoryCheckpointStorage();
  const states = [await visible(model)];
  for (const step of steps) {
    await step(model);
    states.push(await visible(model));
  }
  return states;
}

/** Everything but the list of chunks: garbage may be there a little longer. */
async function visible(storage: ChunkStorage): Promise<string> {
  const { chunks: _, ...rest } = await readAll(storage);
  return JSON.stringify(rest, (_, value: unknown) => (isPlainObject(value) ? sortKeys(value) : value));
}

const isPlainObject = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const sortKeys = (value: object): object => Object.fromEntries(Object.entries(value).sort());

/** Runs the steps and tells after how many operations of the disk each was acknowledged. */
export async function runSteps(disk: SimulatedDisk, fileSystem: FileSystem, steps: readonly Step[]): Promise<number[]> {
  const storage = new FileCheckpointStorage({ path: PATH, fileSystem });
  const acknowledged: number[] = [];
  for (const step of steps) {
    await step(storage);
    acknowledged.push(disk.operations);
  }
  await storage.close();
  return acknowledged;
}

/** What is wrong with a store after a power cut; `undefined` if nothing is. */
export async function findFault(
  { operation, disk }: CrashState,
  acknowledged: readonly number[],
  expected: readonly string[],
): Promise<string | undefined> {
  const done = acknowledged.filter((at) => at <= operation).length;
  const storage = new FileCheckpointStorage({ path: PATH, fileSystem: disk.fileSystem() });
  try {
    const found = await visible(storage);
    // What was acknowledged happened; the step under way happened as a whole or not at all.
    if (found !== expected[done] && found !== expected[done + 1]) return `after ${done} steps: not as expected`;
    await checkReachable(storage);
    assert.deepEqual(await storage.checkIntegrity(), []);
    await checkWritable(storage, operation);
    return undefined;
  } catch (error) {
    return `after ${done} steps: ${error}`;
  } finally {
    await storage.close();
  }
}

/** Reads every chunk of every checkpoint and effect, and checks each against its digest. */
export async function checkReachable(storage: ChunkStorage): Promise<void> {
  const rows = await storage.listCheckpoints({ limit: 1_000_000 });
  const pending: Digest[] = [];
  for (const { id } of rows) pending.push(...((await storage.readCheckpoint(id))?.root?.refs ?? []));
  for (const sessionId of await storage.listSessions({ limit: 1_000_000 })) {
    for (const { result } of await storage.readEffects({ sessionId })) pending.push(...(result?.refs ?? []));
  }
  for (let digest = pending.pop(); digest !== undefined; digest = pending.pop()) {
    const [chunk] = await storage.readChunks([digest]);
    assert.ok(chunk, `chunk ${digest} is lost`);
    checkChunk(chunk);
    pending.push(...chunk.refs);
  }
}

/** A store that survived takes new commits and can be collected. */
async function checkWritable(storage: ChunkStorage, seed: number): Promise<void> {
  const make = new Builders(1_000_000 + seed);
  const chunk = make.chunk();
  const next = make.checkpoint({ sessionId: 'a', root: contentOf(chunk), timestampMs: 1 });
  await storage.commit(commitOf(next, { chunks: [chunk], refs: [moveBranch('after', next, null)] }));
  if (seed % 5 === 0) await storage.collect();
  await checkReachable(storage);
}
