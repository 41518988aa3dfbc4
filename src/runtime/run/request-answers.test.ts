import { describe, expect, test } from 'vitest';
import { createCrew, createRunner } from '../../../test/fleet/crew.ts';
import { LATER } from '../../../test/support/later.ts';
import { STORAGES } from '../../../test/support/storages.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { StandardAgent } from '../agent/standard-agent.ts';
import { CHAT } from '../chat/chat-kind.ts';
import { CheckpointingGroupChatManager } from '../chat/checkpointing-group-chat-manager.ts';
import { GroupChat } from '../chat/group-chat.ts';
import { FLEET } from '../fleet/fleet-kind.ts';
import { defineWorkflow } from '../workflow/definition/parse-workflow.ts';
import { APPROVALS } from '../workflow/step/approvals.ts';
import { WorkflowExecutor } from '../workflow/workflow-executor.ts';
import { type AnyRequest, RequestAnswers } from './request-answers.ts';

const DAY_MS = 86_400_000;

/** Runs until a person is asked; `resume` says whether it went on with a yes. */
type Begin = (manager: CheckpointManager) => Promise<{
  readonly request: { readonly sessionId: string; readonly requestId: string };
  readonly resume: () => Promise<boolean>;
}>;

const beginWorkflow: Begin = async (manager) => {
  const workflow = defineWorkflow({
    workflow: { name: 'flow' },
    steps: [{ id: 'ok', approval: { message: 'Well?' } }],
  });
  const run = () => new WorkflowExecutor({ manager, registry: {} }).run({ workflow, sessionId: 's' });
  expect((await run()).status).toBe('waiting');
  return { request: { sessionId: 's', requestId: 'ok' }, resume: async () => (await run()).status === 'completed' };
};

const beginFleet: Begin = async (manager) => {
  const { runner } = createRunner(createCrew({}, { planReview: true }), { manager });
  expect((await runner.run({ task: 'Find out what is known.' })).status).toBe('waiting');
  return {
    request: { sessionId: 'crew', requestId: 'plan-1' },
    resume: async () => {
      const result = await runner.resume();
      return result.status === 'ended' && result.end.reason === 'satisfied';
    },
  };
};

const beginChat: Begin = async (manager) => {
  const held = () => {
    const agents = [
      new StandardAgent({ name: 'boss', humanInputMode: 'ALWAYS' }),
      new StandardAgent({ name: 'ann', defaultReply: 'So be it.' }),
    ];
    const chat = new GroupChat({ agents, speakerSelection: 'round_robin', maxRounds: 2 });
    return new CheckpointingGroupChatManager({ chat, manager, sessionId: 'chat', logs: false });
  };
  expect((await held().run({ message: 'May we?' })).status).toBe('waiting');
  return {
    request: { sessionId: 'chat', requestId: '1:boss:reply' },
    resume: async () => {
      const { status, messages } = await held().resume();
      return status === 'ended' && messages[1]?.content === 'approve';
    },
  };
};

type Open = (manager: CheckpointManager) => Pick<RequestAnswers<object, AnyRequest>, 'give' | 'giveOrRead' | 'pending'>;

describe.each<[string, Open, Begin]>([
  [
    '[run.1] a conversation',
    (manager) => new RequestAnswers<object, AnyRequest>(manager, CHAT.requests as never),
    beginChat,
  ],
  [
    '[run.1] a workflow',
    (manager) => new RequestAnswers<object, AnyRequest>(manager, APPROVALS as never),
    beginWorkflow,
  ],
  [
    '[run.1] a fleet',
    (manager) => new RequestAnswers<object, AnyRequest>(manager, FLEET.requests as never),
    beginFleet,
  ],
])('%s that asks', (who, open, begin) => {
  test.each(STORAGES)(
    'hears one of many answers from many processes, and the others are told whose (%s)',
    who.endsWith('a conversation') ? {} : LATER,
    async (_name, create) => {
      const { storage, reopen } = create();
      const manager = new CheckpointManager({ storage });
      const { request, resume } = await begin(manager);
      const managers = Array.from({ length: 4 }, () => new CheckpointManager({ storage: reopen?.() ?? storage }));
      const outcomes = await Promise.allSettled(
        managers.map((held, at) =>
          open(held).give({ ...request, answer: at % 2 === 0 ? 'approve' : 'reject', by: `person ${at}` }),
        ),
      );
      const [heard, ...more] = outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value] : []));
      expect([heard?.by, more]).toEqual([expect.stringContaining('person'), []]);
      const refused = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason] : []));
      for (const reason of refused) {
        expect(reason).toMatchObject({ code: 'CONFLICT', details: { by: heard?.by, answer: heard?.answer } });
        expect(String(reason)).toContain(`was already answered by ${heard?.by}: "${heard?.answer}"`);
      }
      expect(await resume()).toBe(heard?.answer === 'approve');
      const late = { ...request, answer: 'approve', by: 'too late' };
      await expect(open(manager).give(late)).rejects.toThrow(`already answered by ${heard?.by}`);
      expect(await open(manager).giveOrRead(late)).toEqual(heard);
      for (const held of managers) await held.close();
      await manager.close();
    },
  );

  test('[retention.7] keeps an answer that nobody resumed yet when age deletes the rest', async () => {
    let nowMs = Date.now();
    const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage(), now: () => nowMs });
    const { request, resume } = await begin(manager);
    const inbox = open(manager);
    await inbox.give({ ...request, answer: 'reject', by: 'Ann' });
    nowMs += 2 * DAY_MS;
    const { verdicts } = await manager.prune({ policy: { maxAgeDays: 1 } });
    expect(verdicts.map(({ reason }) => reason)).toContainEqual(expect.stringContaining('still waits: status waiting'));
    const late = inbox.give({ ...request, answer: 'approve', by: 'Bob' });
    await expect(late).rejects.toThrow('already answered by Ann: "reject"');
    expect(await resume()).toBe(false);
    await manager.close();
  });

  test('looks for an answer on the branch where it is left: the current one, if none is named', async () => {
    const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
    const { request } = await begin(manager);
    const head = await manager.latest({ sessionId: request.sessionId });
    await manager.rewind(head?.id ?? '', { branch: 'what-if' });
    const inbox = open(manager);
    const heard = await inbox.give({ ...request, answer: 'approve', by: 'Ann' });
    expect(await inbox.giveOrRead({ ...request, answer: 'reject', by: 'Bo' })).toEqual(heard);
    const { sessionId } = request;
    expect(await inbox.pending({ sessionId })).toEqual([]);
    expect(await inbox.pending({ sessionId, branch: 'main' })).toHaveLength(1);
  });

  test('does not take the name of something else for one of a request', async () => {
    const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
    const { request } = await begin(manager);
    const given = { ...request, requestId: 'constructor', answer: 'approve', by: 'Ann' };
    await expect(open(manager).give(given)).rejects.toMatchObject({
      code: 'NOT_FOUND',
      details: { known: [request.requestId] },
    });
  });
});
