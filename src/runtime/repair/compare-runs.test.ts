import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createTeam } from '../../../test/support/team.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import type { ChatMessage } from '../agent/chat-message.ts';
import { CheckpointingGroupChatManager } from '../chat/checkpointing-group-chat-manager.ts';
import { alignMessages, compareRuns, findDivergence, formatRunComparison, keyOf } from './compare-runs.ts';
import { intervene } from './intervene.ts';

async function record() {
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  const team = createTeam({ maxRounds: 6 });
  const held = new CheckpointingGroupChatManager({ chat: team.chat, manager, sessionId: 'team', logs: false });
  const { checkpointId = '' } = await held.run({ message: 'Hello.' });
  return { manager, parts: { manager, registry: team.registry }, checkpointId };
}

describe('a comparison of runs', () => {
  test('[repair.10] lays messages beside each other and names the first divergence with its checkpoints', async () => {
    const { parts, manager, checkpointId } = await record();
    const edit = { message: 3, replacement: 'No.', rounds: 2, branch: 'fix', logs: false } as const;
    const { editedId, baseId } = await intervene(parts, checkpointId, edit);
    const main = { sessionId: 'team', branch: 'main' };
    const comparison = await compareRuns(parts, main, { sessionId: 'team', branch: 'fix' });
    expect(comparison).toMatchObject({
      isIdentical: false,
      commonAncestorId: baseId,
      a: { messages: 7, end: { reason: 'max_rounds' } },
      b: { messages: 5, end: { reason: 'max_rounds' } },
      firstDivergence: {
        kind: 'changed',
        a: { index: 2, speaker: 'critic', content: 'I have seen 3 messages.', checkpointId: baseId },
        b: { index: 2, speaker: 'critic', content: 'No.', checkpointId: editedId },
      },
    });
    // What follows the edit says the same again: it depends on numbers of messages alone.
    expect(comparison.counts).toEqual({ same: 4, changed: 1, only_a: 2, only_b: 0 });
    expect(comparison.difference.modelCalls).toBe(-3);
    const { checkpointId: at } = comparison.steps[5]?.a ?? {};
    expect((await manager.get(at ?? ''))?.metadata).toMatchObject({ messages: 6 });
    const text = formatRunComparison(comparison);
    expect(text).toContain('~-   3 critic: I have seen 3 messages.\n~+   3 critic: No.\n');
    expect(text).toContain('messages: 4 same, 1 changed, 2 only in a, 0 only in b');
  });

  test('[repair.10] equal runs are identical, and a shorter one is over where it is', async () => {
    const { parts, manager, checkpointId } = await record();
    const same = await compareRuns(parts, checkpointId, checkpointId);
    expect(same).toMatchObject({ isIdentical: true, firstDivergence: undefined, commonAncestorId: checkpointId });
    expect(formatRunComparison(same)).toContain('first divergence: none');
    const early = (await manager.list({ sessionId: 'team' }, { order: 'oldest' })).checkpoints[3]?.id ?? '';
    const cut = await compareRuns(parts, early, checkpointId);
    expect(cut.firstDivergence).toMatchObject({ kind: 'only_b', b: { index: 2 } });
    expect(cut.firstDivergence?.a).toBeUndefined();
    expect(cut.commonAncestorId).toBe(early);
    expect(formatRunComparison(cut)).toContain('a: is over; b: message 3 of critic');
  });

  test('[repair.10] runs of different sessions have no ancestor in common, and unknown ones are named', async () => {
    const { parts, manager, checkpointId } = await record();
    const { chat } = createTeam({ maxRounds: 1 });
    const other = new CheckpointingGroupChatManager({ chat, manager, sessionId: 'other', logs: false });
    const { checkpointId: otherId = '' } = await other.run({ message: 'Hello.' });
    const comparison = await compareRuns(parts, checkpointId, otherId);
    expect(comparison).toMatchObject({ commonAncestorId: undefined, counts: { same: 2, only_a: 5 } });
    const missing = compareRuns(parts, checkpointId, { sessionId: 'team', branch: 'gone' });
    await expect(missing).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });

  test('[repair.10] the same words after another answer of a tool are a change', () => {
    const say = (value: string): ChatMessage => ({
      name: 'solver',
      content: 'Done.',
      turn: [
        {
          role: 'tool',
          content: [{ type: 'tool-result', toolCallId: value, toolName: 'square', output: { type: 'text', value } }],
        },
      ],
    });
    expect(keyOf(say('1'))).not.toBe(keyOf(say('2')));
    const [first] = say('1').turn ?? [];
    const renamed = JSON.parse(JSON.stringify(first).replace('"toolCallId":"1"', '"toolCallId":"9"'));
    expect(keyOf({ ...say('1'), turn: [renamed], edited: { originalChars: 1 } })).toBe(keyOf(say('1')));
  });

  test('[repair.10] every message of both runs is in exactly one step, in order, and the first step that is not the same is where they part', () => {
    const message = fc.record({ name: fc.constantFrom('a', 'b', 'c'), content: fc.constantFrom('1', '2', '3') });
    const list = fc.array(message, { maxLength: 30 });
    fc.assert(
      fc.property(list, list, (a, b) => {
        const steps = alignMessages(a, b);
        expect(steps.flatMap((step) => step.a ?? [])).toEqual(a.map((_, at) => at));
        expect(steps.flatMap((step) => step.b ?? [])).toEqual(b.map((_, at) => at));
        for (const step of steps) {
          if (step.kind === 'same') expect(a[step.a ?? -1]).toEqual(b[step.b ?? -1]);
          if (step.kind === 'changed') expect(a[step.a ?? -1]?.name).toBe(b[step.b ?? -1]?.name);
          if (step.kind === 'changed') expect(a[step.a ?? -1]).not.toEqual(b[step.b ?? -1]);
        }
        const first = steps.findIndex(({ kind }) => kind !== 'same');
        expect(findDivergence(a, b)).toBe(first < 0 ? undefined : first);
      }),
    );
  });
});
