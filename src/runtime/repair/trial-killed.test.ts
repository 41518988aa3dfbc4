import { describe, expect, test } from 'vitest';
import { createTeam } from '../../../test/support/team.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { ChunkStorage } from '../../storage/contract.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { faultyStorage } from '../../testing/faulty-storage.ts';
import { CheckpointingGroupChatManager } from '../chat/checkpointing-group-chat-manager.ts';
import type { Intervention } from './intervention.ts';
import { trial } from './trial.ts';
import type { TrialReport } from './trial-report.ts';

/** From this commit on nothing reaches the storage: what a process leaves that is killed there. */
function killedAt(storage: ChunkStorage, nth: number): ChunkStorage {
  return faultyStorage(storage, {
    commits: new Proxy({}, { get: (_, at) => (Number(at) >= nth ? 'fails' : undefined) }),
  });
}

/** What a trial found, without what differs between two of them. */
function outcomesOf({ edited, control, isComplete }: TrialReport) {
  const facts = [edited, control].map((arm) =>
    arm?.runs.map(({ outcome, used, newMessages }) => ({ outcome, used, newMessages })),
  );
  return { facts, isComplete };
}

const CHANGES: [string, Intervention][] = [
  ['a message', { message: 3, replacement: 'No.' }],
  ["a tool's answer", { toolResult: { message: 4 }, replacement: '5' }],
];

describe.each(CHANGES)('a trial of %s', (_, intervention) => {
  test('[repair.9] killed at any commit and resumed, it finds the same, and only the call in flight is made again', async () => {
    const judge = ({ messages }: { readonly messages: readonly { readonly content: string }[] }) =>
      messages.some(({ content }) => content === 'The square is 5.');
    const options = { intervention, judge, repeats: 1, rounds: 1, name: 'killed' };
    let isOver = false;
    let expected: { readonly outcomes: unknown; readonly calls: number; readonly tools: number } | undefined;
    for (let nth = 0; !isOver; nth++) {
      const storage = new InMemoryCheckpointStorage();
      const manager = new CheckpointManager({ storage });
      const { chat, registry, model, calls } = createTeam({ maxRounds: 3 });
      const first = new CheckpointingGroupChatManager({ chat, manager, sessionId: 'team', logs: false });
      const { checkpointId = '' } = await first.run({ message: 'Hello.' });
      const [asked, called] = [model.requests.length, calls.length];
      if (nth > 0) {
        const killed = new CheckpointManager({ storage: killedAt(storage, nth) });
        const report = await trial({ manager: killed, registry }, checkpointId, options);
        isOver = [report.edited, report.control].every((arm) => arm?.errors === 0 && arm.runs.length === 1);
      }
      const resumed = await trial({ manager, registry }, checkpointId, options);
      const found = {
        outcomes: outcomesOf(resumed),
        calls: model.requests.length - asked,
        tools: calls.length - called,
      };
      expected ??= found;
      expect(found.outcomes, `killed at commit ${nth}`).toEqual(expected.outcomes);
      expect(found.calls - expected.calls, `killed at commit ${nth}`).toBeLessThanOrEqual(1);
      expect(found.tools - expected.tools, `killed at commit ${nth}`).toBeLessThanOrEqual(1);
    }
    expect(expected?.calls).toBeGreaterThan(0);
  });
});
