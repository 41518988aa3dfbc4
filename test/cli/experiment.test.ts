import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { CheckpointManager } from '../../src/manager/checkpoint-manager.ts';
import { AgentLoop, type LoopAgent } from '../../src/runtime/loop/index.ts';
import { SqliteCheckpointStorage } from '../../src/storage/sqlite/sqlite-storage.ts';
import { LATER } from '../support/later.ts';
import { json, ok, run } from './support/cli.ts';
import { DATABASE, sharedChat } from './support/fixture.ts';
import { copiesOf, newFolder } from './support/folder.ts';
import { createTeamFolder } from './support/team.ts';

const chat = sharedChat();
const PROMPT = 'Plan a day in Lisbon';

const folderWithRun = copiesOf(async () => {
  const folder = createTeamFolder();
  await ok(['run', '-s', 'trip', '-n', '3', PROMPT], { folder });
  return folder;
});

describe.concurrent('trial', () => {
  test('[repair.8] compares runs with and without a change, each in its branch, and says whether it could be chance', async () => {
    const folder = await folderWithRun();
    const change = ['--message', '1', '--replace', 'We are tired', '--repeats', '4', '-n', '2', '--name', 't1'];
    const report = await json('trial', ['@', ...change, '--judge-text', 'nobody will be tired'], { folder });
    expect(report).toMatchObject({
      conclusion: 'helps',
      isComplete: true,
      edited: { successes: 4, errors: 0 },
      control: { failures: 4 },
      intervention: { kind: 'message', index: 0 },
      author: 'ann',
    });
    expect((await json('branch', [], { folder })) as unknown[]).toHaveLength(9);
    const again = await ok(['trial', '@', ...change, '--judge-command', 'grep -q "nobody will be tired"'], { folder });
    expect(again).toContain('The change helps');
    expect(again).toContain('| 4 | control | failure |');
    expect((await json('branch', [], { folder })) as unknown[]).toHaveLength(9); // judged again, not made again
  });

  test('[repair.8] a prompt can be changed, too; a judge that cannot judge exits with 3', async () => {
    const folder = await folderWithRun();
    const strict = ['#4', '--system', 'critic=Be strict.', '--repeats', '1', '-n', '1'];
    const changed = await json('trial', [...strict, '--judge-text', 'Start again'], { folder });
    expect(changed).toMatchObject({ conclusion: 'too_few_runs', edited: { successes: 1 }, control: { failures: 1 } });
    const broken = await json('trial', ['#4', '--repeats', '1', '-n', '1', '--judge-command', 'no-such-judge'], {
      folder,
      code: 3,
    });
    expect(broken).toMatchObject({ conclusion: 'not_compared', control: { errors: 1 } });
  });

  test('[repair.8] Ctrl-C tells what there is and exits with 130', LATER, async () => {
    const folder = await folderWithRun();
    const args = ['trial', '#2', '--repeats', '2', '-n', '1', '--judge-command', 'echo judged >&2; sleep 60'];
    const stopped = await run(args, { folder, onOutput: (text, kill) => text.includes('judged') && kill('SIGINT') });
    expect(stopped.code).toBe(130);
    expect(stopped.stdout).toContain('Not complete');
    expect(stopped.stderr).toContain('--name trial-');
  });

  test('[repair.8] wrong input is told', LATER, async () => {
    const folder = await folderWithRun();
    const judge = ['--judge-text', 'x'];
    for (const [args, code] of [
      [['@'], 2],
      [['@', '--judge-text', '('], 2],
      [['@', ...judge, '--judge-command', 'true'], 2],
      [['@', ...judge, '--message', '1'], 2],
      [['@', ...judge, '--replace', 'x'], 2],
      [['@', ...judge, '--message', 'first', '--replace', 'x'], 2],
      [['@', ...judge, '--message', '1', '--replace', 'x', '--system', 'a=b'], 2],
      [['@', ...judge, '--model', 'critic={'], 2],
      [['nothing', ...judge], 13],
    ] as const)
      expect([args, (await run(['trial', ...args], { folder })).code]).toEqual([args, code]);
  });
});

describe.concurrent('drift', () => {
  test('[cli.27] shows signs over time from the messages of checkpoints, and since which it goes wrong', async () => {
    const folder = createTeamFolder();
    await ok(['run', '-s', 'trip', '-n', '1', PROMPT], { folder });
    const healthy = await json('drift', [], { folder });
    expect(healthy).toMatchObject({ sessionId: 'trip', status: 'healthy', onset: null, evidence: [] });
    // The critic is made to say the same again and again.
    await ok(['fork', '-b', 'stuck', '--switch', '--set', 'agents.critic.systemMessage=Be strict.'], { folder });
    await ok(['continue', '-n', '12'], { folder });
    const stuck = await json('drift', [], { folder });
    expect(stuck).toMatchObject({ branch: 'stuck', status: 'drifting', agent: 'critic' });
    const log = await json('log', [], { folder });
    expect(log.map(({ id }) => id)).toContain(stuck.onset);
    expect(stuck.points.map(({ sequence }) => sequence)).toEqual(
      stuck.points.map(({ sequence }) => sequence).toSorted((a, b) => a - b),
    );
    const text = await ok(['drift', 'trip'], { folder });
    expect(text).toMatch(/^session trip, branch stuck: drifting \(/);
    expect(text).toMatch(/█/);
    expect(text).toMatch(new RegExp(`critic shows signs of drift \\(\\w+\\) since #\\d+ \\(${stuck.onset}\\)\\.`));
    expect(await json('drift', ['--from', 'main'], { folder })).toEqual({ ...healthy, branch: 'main' });
    expect((await run(['drift', 'nobody'], { folder })).code).toBe(13);
  });

  test('[cli.27] states of any program with a list of messages will do', async () => {
    const { folder } = await chat.get();
    const found = await json('drift', [], { folder });
    expect(found.points).toHaveLength(8);
    expect(await json('drift', ['other'], { folder })).toMatchObject({ status: 'healthy', points: [] });
  });

  test('[cli.27] of a loop it shows the recorded health, what happened to it, and signs in its calls; [cli.6] so does log', async () => {
    const folder = newFolder();
    mkdirSync(join(folder, '.savestate'));
    await runOrdinaryLoop(join(folder, DATABASE));
    expect(await json('drift', ['clerk'], { folder })).toMatchObject({ status: 'healthy', kinds: [], onset: null });
    await saveStuckLoop(join(folder, DATABASE));
    const found = await json('drift', ['-s', 'worker'], { folder });
    expect(found).toMatchObject({ status: 'drifting', agent: 'worker', kinds: ['repetition'] });
    expect(found.onset).toBe(found.points.at(-1)?.checkpointId);
    expect(found.evidence).toContainEqual(expect.objectContaining({ signal: 'escalated', kind: 'recorded' }));
    expect(found.points.at(-1)?.scores).toMatchObject({ recorded: 1 });
    expect(await ok(['drift'], { folder })).toMatch(/^session worker, branch main: drifting \(repetition/);
    const log = await ok(['log'], { folder });
    expect(log).toContain('auto interval healthy');
    expect(log).toContain('recovery escalated drifting 1.00 (repetition) "It lists the same again. It lists');
    expect(Math.max(...log.split('\n').map((line) => line.length))).toBeLessThan(200);
    expect(await ok(['log', '--long', '-n', '1'], { folder })).toContain(NOTE);
  });
});

const NOTE = 'It lists the same again. '.repeat(20).trim();

/** A loop whose agent looks up the same rules for each of its messages, as many do. */
async function runOrdinaryLoop(path: string): Promise<void> {
  const manager = new CheckpointManager({ storage: new SqliteCheckpointStorage({ path, durability: 'process' }) });
  const createAgent = (): LoopAgent => ({
    tools: { rules: { run: () => 'two days, prepaid' } },
    handle: async (_, turn) => void (await turn.call('rules', {})),
  });
  const loop = await AgentLoop.open({ manager, agentId: 'clerk', createAgent });
  const handled = new Promise<void>((resolve) => loop.on(() => loop.state.mailbox.processedCount === 30 && resolve()));
  const run = loop.run();
  for (let n = 1; n <= 30; n++) await loop.deliver({ id: `m${n}`, body: n });
  await handled;
  await loop.stop();
  await run;
  await manager.close();
}

/** The session of a loop whose agent calls the same again and again, and was escalated. */
async function saveStuckLoop(path: string): Promise<void> {
  const manager = new CheckpointManager({ storage: new SqliteCheckpointStorage({ path, durability: 'process' }) });
  const session = await manager.session('worker', { mode: 'live' });
  const state = (turn: number) => ({ context: {}, mailbox: {}, loop: { turn } });
  const metadata = { health: 'healthy', driftScore: 0, driftSignals: [] as string[] };
  for (let turn = 0; turn < 30; turn++) {
    await session.step('list', () => 'a b', { input: {} });
    await session.save(state(turn), { type: 'auto', trigger: 'interval', metadata, agentId: 'worker' });
  }
  const drifted = { health: 'drifting', driftScore: 1, driftSignals: ['repetition'] };
  await session.save(state(30), {
    type: 'recovery',
    trigger: 'escalated',
    note: NOTE,
    metadata: drifted,
    agentId: 'worker',
  });
  await manager.close();
}
