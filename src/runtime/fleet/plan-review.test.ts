import { describe, expect, test } from 'vitest';
import { createCrew, createRunner, lastQuestion } from '../../../test/fleet/crew.ts';
import { STORAGES } from '../../../test/support/storages.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { FleetRunner } from './fleet-runner.ts';

const TASK = { task: 'Find out what is known.' };
const REVIEWED = { planReview: true } as const;

/** Begins a fleet whose plan waits for a review. */
async function begin(script = {}) {
  const crew = createCrew(script, REVIEWED);
  const { runner, manager } = createRunner(crew);
  const waiting = await runner.run(TASK);
  return { crew, runner, manager, waiting };
}

describe('plan review', () => {
  test.each(STORAGES.filter(([name]) => name !== 'postgres'))(
    '[fleet.7] a plan waits in the checkpoint for its review, in any process, and is asked for once (%s)',
    async (_, create) => {
      const { storage, reopen } = create();
      const first = createRunner(createCrew({}, REVIEWED), { storage });
      const waiting = await first.runner.run(TASK);
      const request = {
        id: 'plan-1',
        kind: 'plan_review',
        agent: 'orchestrator',
        message: 'Is this plan all right?',
        options: ['approve', 'edit', 'revise', 'reject'],
        plan: 'Look it up.',
        isStalled: false,
        onTimeout: 'wait',
      };
      expect(waiting).toMatchObject({ status: 'waiting', request, rounds: 0 });
      expect(await first.manager.latest({ sessionId: 'crew' })).toMatchObject({
        trigger: 'waiting_for_input',
        status: 'waiting_for_input',
      });
      const later = createCrew({}, REVIEWED);
      const second = createRunner(later, { storage: reopen?.() ?? storage });
      expect(await second.runner.pending()).toMatchObject([request]);
      expect(await second.runner.resume()).toEqual(waiting);
      await second.runner.answer({ requestId: 'plan-1', answer: 'approve', by: 'Ann' });
      expect(await second.runner.pending()).toEqual([]);
      expect(await second.runner.resume()).toMatchObject({ status: 'ended', end: { reason: 'satisfied' } });
      expect(later.asked).not.toContain('plan');
      expect(later.fleet.record.answers['plan-1']).toMatchObject({ answer: 'approve', by: 'Ann' });
      await second.manager.close();
      await first.manager.close();
    },
  );

  test('[fleet.7] edit puts the plan of the person in its place', async () => {
    const { runner, crew } = await begin();
    await runner.answer({ requestId: 'plan-1', answer: 'edit', by: 'Ann', value: 'Ask a librarian.' });
    const result = await runner.resume();
    expect(result).toMatchObject({ status: 'ended', taskLedger: { facts: 'The facts.', plan: 'Ask a librarian.' } });
    expect(result.messages[0]?.content).toContain('Ask a librarian.');
    expect(crew.asked.filter((kind) => kind === 'plan')).toHaveLength(1);
  });

  test('[run.1] answers are given with resume, and not kept if that is refused', async () => {
    const { runner, manager, crew } = await begin();
    const edit = { 'plan-1': { answer: 'edit', by: 'Ann', value: 'Ask a librarian.' } };
    const other = createRunner(createCrew({}, { ...REVIEWED, maxStallCount: 9 }), { manager });
    await expect(other.runner.resume({ answers: edit })).rejects.toThrow('maxStallCount');
    await expect(runner.resume({ answers: { ...edit, nobody: 'asked' } })).rejects.toMatchObject({ code: 'NOT_FOUND' });
    await expect(runner.resume({ answers: edit, prompt: 'Go on.' })).rejects.toThrow('give one of them');
    expect(await runner.pending()).toMatchObject([{ id: 'plan-1' }]);
    expect(await runner.resume({ answers: edit })).toMatchObject({ taskLedger: { plan: 'Ask a librarian.' } });
    expect(crew.fleet.record.answers['plan-1']).toMatchObject({ answer: 'edit', by: 'Ann' });
  });

  test('[fleet.7] revise has it made again with what the person wants, and reviewed again', async () => {
    let plans = 0;
    const { runner, crew } = await begin({ plan: () => `Plan ${++plans}.` });
    await runner.answer({ requestId: 'plan-1', answer: 'revise', by: 'Ann', value: 'Be quick.' });
    expect(await runner.resume()).toMatchObject({ status: 'waiting', request: { id: 'plan-2', plan: 'Plan 2.' } });
    expect(lastQuestion(crew.model.requests.at(-1) ?? { messages: [] })).toMatch(
      /Plan 1\.[\s\S]*to be changed: Be quick\./,
    );
    await runner.answer({ requestId: 'plan-2', answer: 'approve', by: 'Bo' });
    expect(await runner.resume()).toMatchObject({ status: 'ended', taskLedger: { plan: 'Plan 2.' } });
  });

  test('[fleet.7] reject ends it', async () => {
    const { runner, crew } = await begin();
    await runner.answer({ requestId: 'plan-1', answer: 'reject', by: 'Ann' });
    expect(await runner.resume()).toMatchObject({ status: 'ended', end: { reason: 'plan_rejected' }, rounds: 0 });
    expect(crew.asked).toEqual(['facts', 'plan']);
    expect(await runner.resume({ prompt: 'Then ask a librarian.' })).toMatchObject({
      status: 'waiting',
      request: { id: 'plan-2' },
    });
    expect(lastQuestion(crew.model.requests.at(-1) ?? { messages: [] })).toContain('Then ask a librarian.');
  });

  test('[fleet.7] a new plan after a reset is reviewed, too, and says that the work was stuck', async () => {
    const crew = createCrew(
      { assess: (_, asked) => ({ progress: asked > 1, satisfied: asked > 1 }) },
      { ...REVIEWED, maxStallCount: 0 },
    );
    const { runner } = createRunner(crew, {
      ask: async (request) => (request.isStalled ? undefined : { answer: 'approve' }),
    });
    expect(await runner.run(TASK)).toMatchObject({ status: 'waiting', request: { id: 'plan-2', isStalled: true } });
  });

  test('[fleet.7] a prompt instead of an answer makes the plan again, and the old request is closed', async () => {
    const { runner } = await begin();
    expect(await runner.resume({ prompt: 'In French.' })).toMatchObject({
      status: 'waiting',
      request: { id: 'plan-2' },
    });
    expect((await runner.pending()).map(({ id }) => id)).toEqual(['plan-2']);
    const late = runner.answer({ requestId: 'plan-1', answer: 'approve', by: 'Ann' });
    await expect(late).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });

  test('[fleet.7] whoever is there is asked at once, and the request is stored before', async () => {
    const crew = createCrew({}, REVIEWED);
    let stored: unknown;
    const { runner, manager } = createRunner(crew, {
      ask: async ({ id }) => {
        const head = await manager.latest({ sessionId: 'crew' });
        stored = await manager.load(head?.id ?? '');
        return { answer: 'approve', by: id };
      },
    });
    expect(await runner.run(TASK)).toMatchObject({ status: 'ended' });
    expect(stored).toMatchObject({ fleet: { requests: { 'plan-1': { plan: 'Look it up.' } } } });
    expect(crew.fleet.record).toMatchObject({ requests: {}, answers: { 'plan-1': { by: 'plan-1' } } });
  });
});

describe('answers', () => {
  test('[run.1] what cannot be an answer is refused, and says what can', async () => {
    const { runner } = await begin();
    const give = (answer: string, requestId = 'plan-1') => runner.answer({ requestId, answer, by: 'Ann' });
    await expect(give('aprove')).rejects.toThrow('Did you mean "approve"? It takes: approve, edit, revise, reject.');
    await expect(give('edit')).rejects.toThrow('needs a value: the plan as it should be, as a text.');
    await expect(give('revise')).rejects.toThrow('needs a value: what to do better, as a text.');
    await expect(give('approve', 'plan-9')).rejects.toMatchObject({
      code: 'NOT_FOUND',
      details: { known: ['plan-1'] },
    });
    expect(await runner.pending()).toHaveLength(1);
  });

  test('[run.1] words that nobody would read are refused with the answer, which can then be given anew', async () => {
    const { runner } = await begin();
    const said = { answer: 'approve', by: 'Ann', value: 'But in French.' };
    await expect(runner.answer({ requestId: 'plan-1', ...said })).rejects.toThrow(
      'The answer "approve" to "plan-1" takes no value; found "But in French.". To change the plan, answer with "edit" or "revise".',
    );
    await expect(runner.resume({ answers: { 'plan-1': said } })).rejects.toThrow('takes no value');
    expect(await runner.pending()).toHaveLength(1);
  });

  test('[run.1] another plan than the one that was answered with is a conflict, the same one is no news', async () => {
    const { runner, crew } = await begin();
    const edit = (value: string) => ({ answers: { 'plan-1': { answer: 'edit', value } } });
    await runner.answer({ requestId: 'plan-1', answer: 'edit', by: 'Ann', value: 'Ask the library.' });
    await expect(runner.resume(edit('Ask the museum.'))).rejects.toThrow('was already answered by Ann');
    expect(await runner.resume(edit('Ask the library.'))).toMatchObject({ status: 'ended' });
    expect(crew.fleet.record.taskLedger).toMatchObject({ plan: 'Ask the library.' });
  });

  test('[run.1] a fork of a waiting fleet asks for itself', async () => {
    const { manager, waiting, crew } = await begin();
    await manager.fork(waiting.checkpointId ?? '', { branch: 'what-if' });
    const on = (branch: string) => new FleetRunner({ fleet: crew.fleet, manager, sessionId: 'crew', branch });
    await on('main').answer({ requestId: 'plan-1', answer: 'approve', by: 'Ann' });
    expect(await on('what-if').pending()).toHaveLength(1);
    await on('what-if').answer({ requestId: 'plan-1', answer: 'reject', by: 'Bo' });
    expect(await on('what-if').resume()).toMatchObject({ end: { reason: 'plan_rejected' } });
    expect(await on('main').resume()).toMatchObject({ end: { reason: 'satisfied' } });
  });

  test('[run.1] whoever is asked at once may be too late, and then the faster answer counts', async () => {
    const storage = new InMemoryCheckpointStorage();
    const crew = createCrew({}, REVIEWED);
    const elsewhere = createRunner(createCrew(), { storage });
    const { runner } = createRunner(crew, {
      storage,
      ask: async ({ id }) => {
        await elsewhere.runner.answer({ requestId: id, answer: 'edit', by: 'Ann', value: 'Ask.' });
        return { answer: 'reject', by: 'Bo' };
      },
    });
    expect(await runner.run(TASK)).toMatchObject({ end: { reason: 'satisfied' }, taskLedger: { plan: 'Ask.' } });
  });
});
