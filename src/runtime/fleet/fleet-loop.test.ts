import { describe, expect, test } from 'vitest';
import { countReplies, createCrew, createRunner, lastQuestion, wordThought } from '../../../test/fleet/crew.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { StandardAgent } from '../agent/standard-agent.ts';
import { Fleet } from './fleet.ts';

const TASK = { task: 'Find out what is known.' };

describe('a task', () => {
  test('[fleet.1] facts, a plan, rounds by the ledger, and an answer at the end', async () => {
    const crew = createCrew({
      assess: (request) => ({
        satisfied: countReplies(request) >= 2,
        speaker: countReplies(request) === 0 ? 'researcher' : 'writer',
        say: 'Your turn.',
      }),
    });
    const { runner } = createRunner(crew);
    const result = await runner.run(TASK);
    expect(result).toMatchObject({
      status: 'ended',
      end: { reason: 'satisfied', detail: 'because true', answer: 'The answer.' },
      taskLedger: { facts: 'The facts.', plan: 'Look it up.' },
      progressLedger: { is_request_satisfied: { reason: 'because true', answer: true } },
      rounds: 3,
      stalls: 0,
      resets: 0,
    });
    expect(crew.asked).toEqual(['facts', 'plan', 'progress', 'progress', 'progress', 'answer']);
    expect(result.messages.map(({ name }) => name)).toEqual([
      'orchestrator',
      'orchestrator',
      'researcher',
      'orchestrator',
      'writer',
    ]);
    expect(result.messages[0]?.content).toMatch(
      /Find out what is known\.[\s\S]*- researcher: [\s\S]*The facts\.[\s\S]*Look it up\./,
    );
    expect(result.messages[1]?.content).toBe('Your turn.');
  });

  test('[fleet.1] everybody hears everything but has said their own words once', async () => {
    const crew = createCrew();
    const { runner } = createRunner(crew);
    const { messages } = await runner.run(TASK);
    for (const agent of crew.fleet.agents) expect(agent.history('orchestrator')).toEqual(messages);
  });

  test('[fleet.1] an agent with nothing to say is no end: the orchestrator hears of it', async () => {
    const model = createCrew({
      assess: ({ messages }) => ({
        satisfied: messages.some(({ content }) => content === 'mute has nothing to say.'),
        speaker: 'mute',
      }),
    }).model;
    const fleet = new Fleet({ agents: [new StandardAgent({ name: 'mute' })], model });
    const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
    const result = await createRunner({ fleet } as never, { manager }).runner.run(TASK);
    expect(result).toMatchObject({ status: 'ended', end: { reason: 'satisfied' }, rounds: 2 });
  });

  test('[fleet.1] what everybody used is counted, the orchestrator included', async () => {
    const crew = createCrew();
    const { totals } = await createRunner(crew).runner.run(TASK);
    expect(totals.modelCalls).toBe(crew.model.requests.length);
    expect(totals.toolCalls).toBe(2);
    expect(totals.costUsd).toBeCloseTo((totals.inputTokens + 2 * totals.outputTokens) / 1_000_000, 12);
  });

  test('[fleet.1] the caller is told of ledgers, messages, words and calls, unless its flags say no', async () => {
    const told = async (callbacks?: object) => {
      const kinds = new Set<string>();
      const crew = createCrew({}, callbacks === undefined ? {} : { callbacks });
      const tell = (kind: string) => () => void kinds.add(kind);
      const { runner } = createRunner(crew, {
        onText: tell('text'),
        onMessage: tell('message'),
        onTaskLedger: tell('task'),
        onProgressLedger: tell('progress'),
        onToolCall: tell('tool'),
      });
      await runner.run(TASK);
      return [...kinds].sort();
    };
    expect(await told()).toEqual(['message', 'progress', 'task', 'text', 'tool']);
    expect(await told({ streaming: false, progressLedger: false, toolCalls: false })).toEqual(['message', 'task']);
  });
});

describe('the progress ledger', () => {
  test('[fleet.2] a model that answers nonsense is told what was wrong, three times at most', async () => {
    const questions: string[] = [];
    const crew = createCrew({
      assess: (request, asked) => {
        questions.push(lastQuestion(request));
        return asked === 1 ? 'Well, well.' : asked === 2 ? wordThought({ speaker: 'nobody' }) : { satisfied: true };
      },
    });
    const result = await createRunner(crew).runner.run(TASK);
    expect(result).toMatchObject({ status: 'ended', rounds: 1, resets: 0 });
    expect(questions[1]).toContain('There is no JSON object with the keys of the ledger');
    expect(questions[2]).toContain('"next_speaker" cannot be "nobody". Choose one of: researcher, writer.');
  });

  test('[fleet.2] after three such answers the fleet is reset', async () => {
    const crew = createCrew({ assess: (_, asked) => (asked <= 3 ? '{}' : { satisfied: true }) });
    const result = await createRunner(crew).runner.run(TASK);
    expect(result).toMatchObject({ status: 'ended', rounds: 2, resets: 1, end: { reason: 'satisfied' } });
    const [first, second] = [crew.asked.slice(0, 5), crew.asked.slice(5)];
    expect(first).toEqual(['facts', 'plan', 'progress', 'progress', 'progress']);
    expect(second).toEqual(['new facts', 'plan', 'progress', 'answer']);
  });
});

describe('stalls and resets', () => {
  test.each([
    ['no progress', { progress: false }],
    ['a loop', { loop: true }],
  ])('[fleet.3] %s is a stall; more than the limit of them make a reset', async (_, thought) => {
    const stalls: number[] = [];
    const crew = createCrew(
      { assess: (_request, asked) => (asked > 5 ? { satisfied: true } : thought) },
      { maxStallCount: 3 },
    );
    const { runner } = createRunner(crew, {
      onProgressLedger: () => stalls.push(crew.fleet.record.stalls),
    });
    const result = await runner.run(TASK);
    expect(stalls).toEqual([1, 2, 3, 4, 1, 0]);
    expect(result).toMatchObject({ resets: 1, rounds: 6, stalls: 0 });
  });

  test('[fleet.3] progress takes a stall back, and never below none', async () => {
    const thoughts = [{}, { progress: false }, { loop: true }, {}, {}, {}, { satisfied: true }];
    const stalls: number[] = [];
    const crew = createCrew({ assess: (_, asked) => thoughts[asked - 1] ?? {} });
    const { runner } = createRunner(crew, { onProgressLedger: () => stalls.push(crew.fleet.record.stalls) });
    await runner.run(TASK);
    expect(stalls).toEqual([0, 1, 2, 1, 0, 0, 0]);
  });

  test('[fleet.3] a reset updates facts and plan, clears the conversation everywhere, and keeps task and rounds', async () => {
    let plans = 0;
    const crew = createCrew(
      {
        plan: () => `Plan ${++plans}.`,
        assess: (_, asked) => (asked === 2 ? { loop: true } : { satisfied: asked > 2 }),
      },
      { maxStallCount: 0 },
    );
    const { runner } = createRunner(crew);
    const result = await runner.run(TASK);
    expect(result).toMatchObject({
      rounds: 3,
      resets: 1,
      stalls: 0,
      taskLedger: { facts: 'The new facts.', plan: 'Plan 2.' },
    });
    expect(crew.fleet.record.task).toBe(TASK.task);
    expect(result.messages).toHaveLength(1);
    expect(result.messages[0]?.content).toMatch(/Find out what is known\.[\s\S]*The new facts\.[\s\S]*Plan 2\./);
    for (const agent of crew.fleet.agents) expect(agent.history('orchestrator')).toEqual(result.messages);
    const update = crew.model.requests.find((request) =>
      lastQuestion(request).startsWith('We are not making progress'),
    );
    expect(countReplies(update ?? { messages: [] })).toBe(1);
  });
});

describe('limits', () => {
  test('[fleet.4] max_round_count ends with the best answer so far', async () => {
    const crew = createCrew({ assess: () => ({}) }, { maxRoundCount: 4 });
    const { runner, manager } = createRunner(crew);
    const result = await runner.run(TASK);
    expect(result).toMatchObject({
      status: 'ended',
      rounds: 4,
      end: {
        reason: 'max_rounds',
        detail: 'The fleet worked for 4 rounds, and no more are allowed.',
        answer: 'The answer.',
      },
    });
    expect(lastQuestion(crew.model.requests.at(-1) ?? { messages: [] })).toContain(
      'the best answer that our work allows',
    );
    const last = await manager.latest({ sessionId: 'crew' });
    expect(last).toMatchObject({
      trigger: 'fleet_end',
      status: 'completed',
      metadata: { endReason: 'max_rounds', round: 4 },
    });
  });

  test('[fleet.4] the limits are 15 rounds, 3 stalls and 2 resets unless they are set', async () => {
    expect(createCrew().fleet.record).toMatchObject({
      settings: { maxRoundCount: 15, maxStallCount: 3, maxResetCount: 2, planReview: false },
      roundLimit: 15,
      resetLimit: 2,
    });
  });

  test('[fleet.4] max_reset_count resets are allowed, and no more', async () => {
    const crew = createCrew({ assess: () => ({ progress: false }) }, { maxStallCount: 0, maxResetCount: 2 });
    const result = await createRunner(crew).runner.run(TASK);
    expect(result).toMatchObject({ rounds: 3, resets: 2, end: { reason: 'max_resets', answer: 'The answer.' } });
  });

  test.each([
    ['token_budget', { maxTokens: 1 }],
    ['cost_budget', { maxCostUsd: 0.000_001 }],
  ])('[fleet.4] a %s ends without another call', async (reason, budget) => {
    const crew = createCrew({ assess: () => ({}) }, budget);
    const result = await createRunner(crew).runner.run(TASK);
    expect(result).toMatchObject({ rounds: 0, end: { reason, answer: '' } });
    expect(crew.asked).toEqual(['facts', 'plan']);
    const spent = createCrew({ assess: () => ({}) }, { maxTokens: 2_500 });
    const later = await createRunner(spent).runner.run(TASK);
    expect(later).toMatchObject({ end: { reason: 'token_budget', answer: expect.stringMatching(/^Found in/) } });
    expect(spent.asked).not.toContain('answer');
  });

  test.each([
    [{ maxRoundCount: 0 }, '"maxRoundCount" of new Fleet() must be a whole number of 1 or more; found 0.'],
    [{ maxStallCount: -1 }, '"maxStallCount" of new Fleet() must be a whole number of 0 or more; found -1.'],
    [{ maxResetCount: 1.5 }, '"maxResetCount" of new Fleet() must be a whole number of 0 or more; found 1.5.'],
    [{ agents: [] }, 'A team needs at least one agent.'],
    [{ orchestratorName: 'writer' }, '"writer" is the name of two in the team.'],
    [{ model: undefined }, 'The orchestrator of a fleet needs a model or an llmConfig; it has neither.'],
  ])('[fleet.4] %o is refused', (options, message) => {
    expect(() => createCrew({}, options as object)).toThrow(message);
  });
});
