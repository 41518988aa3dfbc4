import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { LATER } from '../../../test/support/later.ts';
import { temporaryFolder } from '../../../test/support/storages.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { ChunkStorage, Commit } from '../../storage/contract.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { SqliteCheckpointStorage } from '../../storage/sqlite/sqlite-storage.ts';
import { defineWorkflow } from './definition/parse-workflow.ts';
import { WorkflowExecutor } from './workflow-executor.ts';

const long = (count: number, checkpoint: boolean) =>
  defineWorkflow({
    workflow: { name: 'long', checkpoint },
    steps: Array.from({ length: count }, (_, at) => ({ id: `s${at}`, function: 'work', input: at })),
  });

const work = (at: number): unknown => ({ at, text: `result ${at} `.repeat(200) });

/** Hands every call on and tells of it. */
function watched(inner: ChunkStorage, onCall: (name: string, argument: unknown) => void): ChunkStorage {
  return new Proxy(inner, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name);
      if (typeof value !== 'function') return value;
      return (...args: unknown[]) => {
        onCall(String(name), args[0]);
        return value.apply(target, args);
      };
    },
  });
}

function sizeOf({ checkpoint, chunks = [], effects = [] }: Commit): number {
  const contents = [...chunks, ...(checkpoint === undefined ? [] : [checkpoint.root])];
  const texts = contents.reduce((sum, { text, refs }) => sum + text.length + 32 * refs.length, 0);
  return texts + effects.reduce((sum, { body, result }) => sum + body.length + (result?.text.length ?? 0), 0);
}

describe.each([false, true])('a long run, with a checkpoint after each step: %s', (checkpoint) => {
  /** How often a lease is renewed is up to the clock. */
  const isRenewal = ({ checkpoint, effects = [], refs = [] }: Commit): boolean =>
    checkpoint === undefined && effects.length === 0 && refs.some(({ kind }) => kind === 'due');

  test('[workflow.15] a step writes as much at the end as at the beginning', async () => {
    const count = 200;
    const commits: number[] = [];
    const storage = watched(new InMemoryCheckpointStorage(), (name, commit) => {
      if (name === 'commit' && !isRenewal(commit as Commit)) commits.push(sizeOf(commit as Commit));
    });
    const executor = new WorkflowExecutor({
      manager: new CheckpointManager({ storage }),
      registry: { functions: { work } },
    });
    const { status, steps } = await executor.run({ workflow: long(count, checkpoint) });
    expect([status, steps.length]).toEqual(['completed', count]);
    const perStep = checkpoint ? 3 : 2;
    const middle = commits.slice(1, 1 + perStep * count); // without the first checkpoint and the last
    const tenth = middle.length / 10;
    const sum = (sizes: readonly number[]): number => sizes.reduce((total, size) => total + size, 0);
    expect(commits.length).toBeLessThanOrEqual(2 + perStep * count + 2);
    expect(sum(middle.slice(-tenth)) / sum(middle.slice(tenth, 2 * tenth))).toBeLessThanOrEqual(1.3);
  });

  test('[workflow.15] a resume reads in bulk: as often after many steps as after few', LATER, async () => {
    const readsAfter = async (count: number): Promise<number> => {
      const path = join(temporaryFolder(), 'long.db');
      const workflow = long(count + 10, checkpoint);
      const died = new AbortController();
      const dying = (at: number): unknown => {
        if (at === count) died.abort();
        died.signal.throwIfAborted();
        return work(at);
      };
      const open = () => new SqliteCheckpointStorage({ path, durability: 'process' });
      const before = new CheckpointManager({ storage: open() });
      const first = new WorkflowExecutor({ manager: before, registry: { functions: { work: dying } } });
      await expect(first.run({ workflow, sessionId: 's', signal: died.signal })).rejects.toThrow();
      await before.close();

      let reads = 0;
      let readsBefore = -1;
      const ran: number[] = [];
      const storage = watched(open(), (name) => {
        if (/^(read|list)/.test(name)) reads++;
      });
      const manager = new CheckpointManager({ storage });
      const noted = (at: number): unknown => {
        if (ran.length === 0) readsBefore = reads;
        ran.push(at);
        return work(at);
      };
      const second = new WorkflowExecutor({ manager, registry: { functions: { work: noted } } });
      expect(await second.run({ workflow, sessionId: 's' })).toMatchObject({ status: 'completed' });
      expect(ran).toEqual(Array.from({ length: 10 }, (_, at) => count + at));
      await manager.close();
      return readsBefore;
    };
    expect(await readsAfter(60)).toBe(await readsAfter(20));
  });
});
