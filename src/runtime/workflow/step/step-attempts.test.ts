import { expect, test } from 'vitest';
import { LATER } from '../../../../test/support/later.ts';
import { CheckpointManager } from '../../../manager/checkpoint-manager.ts';
import { InMemoryCheckpointStorage } from '../../../storage/memory/memory-storage.ts';
import { defineWorkflow } from '../definition/parse-workflow.ts';
import type { StepContext } from '../definition/registry.ts';
import { WorkflowExecutor } from '../workflow-executor.ts';

test(
  '[workflow.12] a checkpoint beside a step that ends, at whatever moment, counts it only if it holds it',
  LATER,
  async () => {
    const hops = async (count: number): Promise<void> => {
      for (let hop = 0; hop < count; hop++) await undefined;
    };
    const failures = new Set<string>();
    const executor = new WorkflowExecutor({
      manager: new CheckpointManager({ storage: new InMemoryCheckpointStorage() }),
      registry: {
        functions: {
          f: async (count: number, { step }: StepContext) => {
            await hops(count);
            if (!step.startsWith('retried') || failures.has(step)) return count;
            failures.add(step);
            throw new Error('once');
          },
        },
      },
    });
    const retry = { max_attempts: 2, delay: '0ms' };
    const members = Array.from({ length: 40 }, (_, at) => [
      { id: `saved${at}`, function: 'f', input: at, checkpoint: true },
      { id: `beside${at}`, function: 'f', input: at },
      { id: `retried${at}`, function: 'f', input: at, retry },
    ]);
    const { sessionId } = await executor.run({
      workflow: defineWorkflow({ steps: [{ id: 'all', parallel: members.flat() }] }),
    });
    const { checkpoints } = await executor.manager.list({ sessionId }, { limit: 100 });
    expect(checkpoints).toHaveLength(1 + 40 + 1);
    for (const { id, header } of checkpoints) {
      const { ends, tries } = (await executor.manager.load(id)) as { ends: { path: string }[]; tries: object };
      const done = ends.filter(({ path }) => path !== 'all');
      const ofRetried = done.filter(({ path }) => path.startsWith('retried')).length;
      const failed = Object.keys(tries).filter((path) => done.every((end) => end.path !== path)).length;
      expect(done.length + ofRetried + failed).toBe((header.effectCount ?? 0) - (header.effectsInFlight ?? []).length);
    }
  },
);

test('[workflow.14] a run is aborted also while its steps wait for nothing, on a storage that does not either', async () => {
  const stop = new AbortController();
  const executor = new WorkflowExecutor({
    manager: new CheckpointManager({ storage: new InMemoryCheckpointStorage() }),
    registry: {
      functions: {
        f: () => {
          throw new Error('again');
        },
      },
    },
  });
  const workflow = defineWorkflow({
    steps: [{ id: 'busy', function: 'f', retry: { max_attempts: 5_000, delay: '0ms' } }],
  });
  setTimeout(() => stop.abort(new Error('enough')), 0);
  await expect(executor.run({ workflow, signal: stop.signal })).rejects.toThrow('enough');
});
