import { describe, expect, test } from 'vitest';
import { describeOn, LATER } from '../../../test/support/later.ts';
import { STORAGES } from '../../../test/support/storages.ts';
import { createTeam } from '../../../test/support/team.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import type { ScriptedAnswer } from '../../testing/model/scripted-answer.ts';
import type { ChatRunResult } from '../chat/chat-run.ts';
import { CheckpointingGroupChatManager } from '../chat/checkpointing-group-chat-manager.ts';
import type { ModelRequest } from '../model/chat-model.ts';
import { type TrialOptions, trial } from './trial.ts';
import { formatTrial } from './trial-report.ts';

const KEPT = STORAGES.filter(([name]) => name === 'memory' || name === 'sqlite');

/** Whoever was told to use the mean says the right thing; the others say something else each time, as real models do. */
function createScript() {
  let count = 0;
  return ({ messages }: ModelRequest): ScriptedAnswer => {
    const isTold = JSON.stringify(messages).includes('Use the mean');
    return isTold ? 'It is 42.' : `It may be ${++count}.`;
  };
}

async function record(manager: CheckpointManager, script: (request: ModelRequest) => ScriptedAnswer = createScript()) {
  const team = createTeam({ maxRounds: 4 }, script);
  const held = new CheckpointingGroupChatManager({ chat: team.chat, manager, sessionId: 'team', logs: false });
  const { checkpointId = '' } = await held.run({ message: 'What is it?' });
  return { team, parts: { manager, registry: team.registry }, checkpointId };
}

function open() {
  return new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
}

function isRight({ messages }: ChatRunResult): boolean {
  return messages.at(-1)?.content === 'It is 42.';
}

const HINT = { message: 3, replacement: 'Use the mean.' } as const;
const TRIAL: TrialOptions = { intervention: HINT, repeats: 4, rounds: 2, judge: isRight };

describeOn(KEPT)('a trial in %s storage', (_, create) => {
  test('[repair.7] shows that a change helps, with the runs side by side', async () => {
    const manager = new CheckpointManager({ storage: create().storage });
    const { parts, checkpointId } = await record(manager);
    const report = await trial(parts, checkpointId, { ...TRIAL, reason: 'nobody named a method' });
    expect(report).toMatchObject({ isComplete: true, conclusion: 'helps', repeats: 4, rounds: 2 });
    expect(report.edited).toMatchObject({ successes: 4, failures: 0, errors: 0, successRate: 1 });
    expect(report.control).toMatchObject({ successes: 0, failures: 4, errors: 0, successRate: 0 });
    expect(report.chance?.table).toEqual([
      [4, 0],
      [0, 4],
    ]);
    expect(report.chance?.pValue).toBeCloseTo(0.02857, 5);
    for (const run of report.edited?.runs ?? [])
      expect(run.divergence).toEqual({ index: 2, speaker: 'critic', otherSpeaker: 'critic' });
    for (const run of report.control.runs) expect(run.divergence).toMatchObject({ index: 3, speaker: 'solver' });
    const branches = [...(report.edited?.runs ?? []), ...report.control.runs].map(({ branch }) => branch);
    expect(new Set(branches).size).toBe(8);
    expect((await manager.branches('team')).length).toBe(9);
    expect(report.edited?.used).toMatchObject({ modelCalls: 8, costUsd: 0 });
    await manager.close();
  });

  test('[repair.9] a trial that was stopped is resumed by its name, and no finished run or call is made again', async () => {
    const { storage, reopen } = create();
    const manager = new CheckpointManager({ storage });
    const { parts, checkpointId, team } = await record(manager);
    const before = team.model.requests.length;
    const stop = new AbortController();
    let said = 0;
    const stopping = { signal: stop.signal, onMessage: () => void (++said === 11 && stop.abort()) };
    const half = await trial(parts, checkpointId, { ...TRIAL, ...stopping, name: 'hint' });
    expect(half).toMatchObject({
      isComplete: false,
      edited: { successes: 3, errors: 0 },
      control: { failures: 2, errors: 1 },
    });
    const later = reopen === undefined ? manager : new CheckpointManager({ storage: reopen() });
    const judged: string[] = [];
    const judge = (result: ChatRunResult) => {
      judged.push(result.branch);
      expect(result.newMessages).toBe(2);
      return isRight(result);
    };
    const resumed = await trial({ ...parts, manager: later }, checkpointId, { ...TRIAL, judge, name: 'hint' });
    expect(resumed).toMatchObject({
      isComplete: true,
      conclusion: 'helps',
      edited: { successes: 4 },
      control: { failures: 4 },
    });
    expect(resumed.edited?.runs.filter(({ isReused }) => isReused).map(({ run }) => run)).toEqual([1, 2, 3]);
    expect(judged.length).toBe(8);
    expect(team.model.requests.length - before).toBe(8 * 2);
    const more = await trial({ ...parts, manager: later }, checkpointId, { ...TRIAL, name: 'hint', repeats: 5 });
    expect(more.edited?.successes).toBe(5);
    expect(team.model.requests.length - before).toBe(10 * 2);
    const other = { ...TRIAL, name: 'hint', intervention: { ...HINT, replacement: 'Use the median.' } };
    await expect(trial({ ...parts, manager: later }, checkpointId, other)).rejects.toThrow(/Choose another name/);
    await later.close();
  });
});

describe('a trial', () => {
  test('[repair.8] a change without effect is not taken for one', LATER, async () => {
    const { parts, checkpointId } = await record(open());
    let asked = 0;
    const judge = () => [true, true, false, false][asked++ % 4] === true;
    const report = await trial(parts, checkpointId, { ...TRIAL, judge });
    expect(report).toMatchObject({
      edited: { successes: 2 },
      control: { successes: 2 },
      chance: { pValue: expect.closeTo(1, 9) },
    });
    expect(report.conclusion).toBe('could_be_chance');
    const few = await trial(parts, checkpointId, { ...TRIAL, repeats: 3 });
    expect(few).toMatchObject({ edited: { successes: 3 }, control: { failures: 3 }, conclusion: 'too_few_runs' });
    expect(few.chance?.smallestPValue).toBeCloseTo(0.1, 9);
    const harm = await trial(parts, checkpointId, { ...TRIAL, judge: (result) => !isRight(result) });
    expect(harm.conclusion).toBe('harms');
  });

  test('[repair.9] runs and judges that fail are outcomes of their own and lose nothing', async () => {
    const script = createScript();
    let calls = 0;
    const broken = (request: ModelRequest) => (++calls === 9 ? { status: 503 } : script(request));
    const { parts, checkpointId } = await record(open(), broken);
    const judge = async (result: ChatRunResult) => {
      if (result.branch === 'flaky-control-1') throw new Error('no idea');
      if (result.branch === 'flaky-edited-1') return 'yes' as never;
      return { success: isRight(result), score: result.newMessages, note: 'looked at | it' };
    };
    const report = await trial(parts, checkpointId, { ...TRIAL, repeats: 3, judge, name: 'flaky' });
    expect(report.isComplete).toBe(true);
    expect(report.edited).toMatchObject({ successes: 1, failures: 0, errors: 2, meanScore: 2 });
    expect(report.control).toMatchObject({ successes: 0, failures: 2, errors: 1 });
    const errors = [...(report.edited?.runs ?? []), ...report.control.runs].flatMap(({ error }) => error ?? []);
    expect(errors).toEqual([
      expect.stringMatching(/judge must say whether/),
      expect.stringMatching(/503/),
      expect.stringMatching(/judge failed: no idea/),
    ]);
    // What failed is resumed; what ended is only judged.
    const again = await trial(parts, checkpointId, { ...TRIAL, repeats: 3, name: 'flaky' });
    expect(again).toMatchObject({ edited: { successes: 3, errors: 0 }, control: { failures: 3, errors: 0 } });
    expect(calls).toBe(4 + 6 * 2 + 1);
  });

  test('[repair.7] several runs at once give what one after the other gives', async () => {
    const { parts, checkpointId } = await record(open());
    const seen: number[] = [];
    const report = await trial(parts, checkpointId, { ...TRIAL, concurrency: 5, onRun: ({ run }) => seen.push(run) });
    expect(report).toMatchObject({ edited: { successes: 4 }, control: { failures: 4 }, isComplete: true });
    expect(report.edited?.runs.map(({ run }) => run)).toEqual([1, 2, 3, 4]);
    expect(seen.length).toBe(8);
  });

  test('[repair.7] without an intervention only the unedited runs are made', async () => {
    const { parts, checkpointId } = await record(open());
    const report = await trial(parts, checkpointId, { repeats: 2, rounds: 1, judge: () => true });
    expect(report).toMatchObject({
      edited: undefined,
      control: { successes: 2 },
      conclusion: 'not_compared',
    });
    expect(formatTrial(report)).toContain('nothing is compared');
  });

  test("[repair.7] the control of a tool's answer takes the same turn again with the original answer", async () => {
    const manager = open();
    const team = createTeam({ maxRounds: 4 });
    const held = new CheckpointingGroupChatManager({ chat: team.chat, manager, sessionId: 'team', logs: false });
    const { checkpointId = '' } = await held.run({ message: 'Hello.' });
    const [asked, calls] = [team.model.requests.length, team.calls.length];
    const intervention = { toolResult: { message: 4, tool: 'square' }, replacement: '1' } as const;
    const judge = ({ messages }: ChatRunResult) => messages[3]?.content === 'The square is 1.';
    const report = await trial({ manager, registry: team.registry }, checkpointId, {
      intervention,
      judge,
      repeats: 4,
      rounds: 1,
    });
    expect(report).toMatchObject({ edited: { successes: 4 }, control: { failures: 4 }, conclusion: 'helps' });
    expect(report.control.runs.map(({ divergence }) => divergence)).toEqual(Array.from({ length: 4 }, () => undefined));
    expect(team.model.requests.length - asked).toBe(8);
    expect(team.calls.length).toBe(calls);
  });

  test('[repair.4] senseless options are refused before anything runs', async () => {
    const manager = open();
    const { parts, checkpointId } = await record(manager);
    for (const wrong of [
      { repeats: 0 },
      { repeats: 1.5 },
      { rounds: 0 },
      { concurrency: 0 },
      { name: '' },
      { judge: undefined as never },
    ])
      await expect(trial(parts, checkpointId, { ...TRIAL, ...wrong })).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    const nowhere = { ...TRIAL, intervention: { message: 100, replacement: '' } };
    await expect(trial(parts, checkpointId, nowhere)).rejects.toThrow(/no message 100/);
    expect((await manager.branches('team')).length).toBe(1);
  });

  test('[repair.6] a report is plain data, and reads as Markdown whatever was said', async () => {
    const { parts, checkpointId } = await record(open());
    const judge = (result: ChatRunResult) => ({ success: isRight(result), score: 0.5, note: 'a | b\n# c' });
    const report = await trial(parts, checkpointId, {
      ...TRIAL,
      judge,
      name: 'shown',
      author: 'ada',
      reason: 'a *guess*',
    });
    expect(JSON.parse(JSON.stringify(report))).toMatchObject({ name: 'shown', chance: { alpha: 0.05 } });
    const text = formatTrial(report);
    expect(text).toContain('| success | 4 (100 %) | 0 (0 %) |');
    expect(text).toContain('p = 0.0286');
    expect(text).toContain('- Reason: a \\*guess\\*');
    expect(text).toContain('a \\| b \\# c');
    const lines = text.split('\n').filter((line) => line.startsWith('|'));
    const columns = new Set(lines.slice(8).map((line) => line.split(/(?<!\\)\|/).length));
    expect([...columns]).toEqual([10]);
  });
});
