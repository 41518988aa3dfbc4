import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { LATER } from '../support/later.ts';
import { json, ok, run } from './support/cli.ts';
import { DATABASE, sharedChat } from './support/fixture.ts';
import { newFolder } from './support/folder.ts';
import { Screen } from './support/pty.ts';
import { createTeamFolder, TEAM_WITH_BOSS } from './support/team.ts';

const PROMPT = 'Plan a day in Lisbon';
const chat = sharedChat();

describe.concurrent('run', () => {
  test('[cli.24] says a prompt to the configured team; every message is a checkpoint; goes on with a session', async () => {
    const folder = createTeamFolder();
    const first = await json('run', ['-s', 'trip', '-n', '3', PROMPT], { folder });
    expect(first).toMatchObject({
      kind: 'chat',
      sessionId: 'trip',
      branch: 'main',
      status: 'ended',
      reason: 'max_rounds',
      newMessages: 4,
      messages: [
        { name: 'user', content: PROMPT },
        { name: 'planner', content: 'Step 1: walk up to the castle.' },
        { name: 'critic' },
        { name: 'planner', content: 'Step 2: take tram 28.' },
      ],
    });
    const saved = await json('log', ['--where', 'trigger === "message_appended"'], { folder });
    expect(saved).toHaveLength(4);
    const text = await run(['run', '-s', 'trip', '-n', '1', 'We', 'are', 'tired'], { folder });
    expect(text.stdout).toBe(
      '\nuser: We are tired\n\nplanner: Step 3: sleep long, then eat pastries in Belém.\n\nEnded: 1 of 1 round was run. For more: savestate continue --session trip -n 5\n',
    );
    expect(text.stderr).toMatch(/^session trip, branch main, chk_/);
    expect(text.code).toBe(0);
    writeFileSync(join(folder, 'savestate.yaml'), '');
    const flags = ['--team', 'team.yaml', '--storage', 'sqlite:other.db'];
    const hint = (await ok(['run', ...flags, '-n', '1', 'Hello'], { folder })).match(/For more: savestate (.*)\n/)?.[1];
    expect(hint).toMatch(/^continue --session chat-\S+ --storage sqlite:other.db --team team.yaml -n 5$/);
    expect((await run((hint ?? '').split(' '), { folder })).code).toBe(0);
  });

  test('[cli.24] without --session a new one begins; the prompt may be in a file; files of the session are written on request', async () => {
    const folder = createTeamFolder();
    writeFileSync(join(folder, 'prompt.txt'), `${PROMPT}\n`);
    const args = ['--prompt-file', 'prompt.txt', '-n', '1', '--logs', 'out', '--user', 'u1'];
    const begun = await json('run', args, { folder });
    if (begun.kind === 'workflow') throw new Error('a team was to be run');
    const { sessionId, messages, folder: logs } = begun;
    expect(sessionId).toMatch(/^chat-\d{8}-\d{6}$/);
    expect(messages[0]?.content).toBe(PROMPT);
    expect(logs?.startsWith(join(folder, 'out'))).toBe(true);
    expect(existsSync(logs ?? '')).toBe(true);
    expect((await json('log', ['-n', '1'], { folder }))[0]?.userId).toBe('u1');
  });

  test('[cli.24] run goes on with the session that a variable or savestate.yaml names', async () => {
    const folder = createTeamFolder('team: team.yaml\nsession: ours\n');
    const named = { folder, env: { SAVESTATE_SESSION: 'mine' } };
    for (const begun of [1, 2]) {
      const { sessionId, ...first } = await json('run', ['Plan a day', '-n', '1'], named);
      expect([sessionId, 'messages' in first && first.messages.length > 1, begun]).toEqual(['mine', true, begun]);
    }
    expect(await json('run', ['Plan a day', '-n', '1'], { folder })).toMatchObject({ sessionId: 'ours' });
    expect((await json('sessions', [], { folder })).map(({ id }) => id).toSorted()).toEqual(['mine', 'ours']);
    expect(
      await json('run', ['packing.yaml', '--input', '{"days":2}', '-s', 'bag'], { ...named, code: 3 }),
    ).toMatchObject({
      sessionId: 'bag',
    });
  });

  test('[cli.24] a module may make the chat; what cannot be used is told with its exit code', async () => {
    const folder = createTeamFolder('');
    writeFileSync(
      join(folder, 'mine.mjs'),
      `import { GroupChat, StandardAgent } from 'savestate/agents';
       import { registry } from './travellers.mjs';
       export { registry };
       const [model] = Object.values(registry.models);
       export const createTeam = () => new GroupChat({ agents: [new StandardAgent({ name: 'solo', systemMessage: 'You plan.', model })], allowRepeatSpeaker: true });`,
    );
    const one = await json('run', ['--team', 'mine.mjs', '-n', '1', PROMPT], { folder });
    expect(one.kind === 'chat' && one.messages.at(-1)?.name).toBe('solo');
    writeFileSync(join(folder, 'empty.mjs'), 'export const nothing = 1;\n');
    writeFileSync(join(folder, 'broken.mjs'), 'export const = ;\n');
    writeFileSync(join(folder, 'wrong.yaml'), 'agents:\n  - name: ann\n    sytem_message: hi\n');
    for (const [team, code, said] of [
      ['missing.yaml', 13, 'missing.yaml'],
      ['missing.mjs', 13, 'missing.mjs'],
      ['empty.mjs', 2, 'createTeam'],
      ['broken.mjs', 2, 'cannot be loaded'],
      ['wrong.yaml', 2, '3:5'],
    ] as const) {
      const failed = await run(['run', '--team', team, PROMPT], { folder });
      expect([team, failed.code]).toEqual([team, code]);
      expect(failed.stderr).toContain(said);
      expect(failed.stderr).not.toMatch(/\n {4}at /);
    }
    for (const args of [[], ['--prompt-file', 'missing.txt'], ['-n', 'many', PROMPT], ['-n', '0', PROMPT]])
      expect([args, (await run(['run', '--team', 'team.yaml', ...args], { folder })).code]).toEqual([
        args,
        args[0] === '--prompt-file' ? 13 : 2,
      ]);
  });

  test('[cli.24] without a team it exits with 13 and makes nothing; with one it makes the storage', async () => {
    const folder = newFolder();
    const { code, stderr } = await run(['run', PROMPT], { folder });
    expect([code, existsSync(join(folder, '.savestate'))]).toEqual([13, false]);
    expect(stderr).toContain('team.yaml');
  });

  test('[cli.21] run meets a damaged database and a session of another kind with an error in plain words', async () => {
    const folder = createTeamFolder();
    const { folder: other } = await chat.get();
    const options = { folder, env: { SAVESTATE_STORAGE: join(other, DATABASE) } };
    const foreign = await run(['run', '-s', 'support-42', PROMPT], options);
    expect([foreign.code, foreign.stderr]).toEqual([2, expect.stringContaining('does not hold a conversation')]);
    writeFileSync(join(folder, 'damaged.db'), readFileSync(join(other, DATABASE)).fill(0xa5, 100));
    expect((await run(['run', '--storage', 'damaged.db', PROMPT], { folder })).code).toBe(4);
  });
});

describe.concurrent("a program's own session", () => {
  test('[cli.25] cannot be continued here, with or without a team: what to do instead is said', async () => {
    const { folder } = await chat.get();
    const team = createTeamFolder();
    for (const args of [['continue'], ['resume', '@~2'], ['continue', '--team', join(team, 'team.yaml')]]) {
      const { code, stderr } = await run(args, { folder });
      expect([args, code, stderr]).toEqual([args, 15, expect.stringContaining('run it again')]);
      for (const words of ['was saved by a program', 'savestate log', 'savestate show', 'savestate fork <revision>'])
        expect(stderr).toContain(words);
      expect(stderr).not.toContain('team here');
    }
  });
});

describe.concurrent('a run that was cut off', () => {
  test('[cli.25] after kill -9 continue goes on; what was said is not said again', async () => {
    const folder = createTeamFolder();
    const killed = await run(['run', '-s', 'trip', '-n', '4', PROMPT], { folder, env: { CRASH_AT_REPLY: '3' } });
    expect(killed.code).toBeNull();
    const going = await json('continue', [], { folder });
    expect(going).toMatchObject({ sessionId: 'trip', branch: 'main', status: 'ended', reason: 'max_rounds' });
    expect(going.kind === 'chat' && [going.newMessages, going.messages.length]).toEqual([2, 5]);
    expect(await json('continue', [], { folder })).toMatchObject({ newMessages: 0, checkpointId: going.checkpointId });
    expect(await json('continue', ['-n', '1'], { folder })).toMatchObject({ newMessages: 1 });
    expect((await run(['continue', '-s', 'nobody'], { folder })).code).toBe(13);
    expect((await run(['continue', '--answer', 'x'], { folder })).code).toBe(2);
    expect((await run(['continue', '--answer', 'x=y'], { folder })).code).toBe(13);
  });

  test('[cli.21] Ctrl-C stops at the last checkpoint with 130, and continue goes on', async () => {
    const folder = createTeamFolder();
    const stopped = await run(['run', '-s', 'trip', '-n', '2', PROMPT], {
      folder,
      env: { DELAY_MS: '60000' },
      onOutput: (text, kill) => text.includes('user: Plan') && kill('SIGINT'),
    });
    expect(stopped.code).toBe(130);
    expect(stopped.stdout).toContain('Continue with: savestate continue');
    expect(await json('verify', ['--read-data'], { folder })).toMatchObject({ status: 'clean' });
    expect(await json('continue', [], { folder })).toMatchObject({ status: 'ended', newMessages: 2 });
  });

  test('[cli.25] a model that fails exits with 17, and continue tries again', LATER, async () => {
    const folder = createTeamFolder();
    const failing = await run(['run', '-s', 'trip', '-n', '1', PROMPT], { folder, env: { FAIL: '1' } });
    expect(failing.code).toBe(17);
    expect(failing.stdout).toContain('Try again with: savestate continue');
    expect(await json('continue', [], { folder })).toMatchObject({ status: 'ended', newMessages: 1 });
  });

  test('[cli.25] what waits for a person exits with 3, and goes on with the answer; at a terminal the person is asked', async () => {
    const folder = createTeamFolder('team: asking.yaml\n');
    writeFileSync(join(folder, 'asking.yaml'), TEAM_WITH_BOSS);
    const waiting = await json('run', ['-s', 'trip', '-n', '2', PROMPT], { folder, code: 3 });
    const id = waiting.kind === 'chat' ? (waiting.question?.id ?? '') : '';
    expect(waiting).toMatchObject({ status: 'waiting', question: { agent: 'boss' } });
    const going = await json('continue', ['--answer', `${id}=Go ahead`, '--user', 'bea'], { folder });
    const answered = await json('log', ['--all'], { folder });
    expect(answered.find(({ reason }) => reason === 'answer: Go ahead')).toMatchObject({ author: 'bea' });
    expect(going.kind === 'chat' && going.messages.at(-1)).toEqual({ name: 'boss', content: 'Go ahead' });
    const screen = new Screen(['run', '-s', 'asked', '-n', '2', PROMPT], { folder });
    await screen.shows('boss: ');
    await screen.shows('\n> ');
    screen.enter('Never');
    expect(await screen.ended).toBe(0);
    expect(await json('show', ['-s', 'asked', '@:chat.messages[-1].content'], { folder })).toMatchObject({
      value: 'Never',
    });
  });

  test.each([
    ['chat', 'asking.yaml'],
    ['fleet', 'fleet.mjs'],
  ])('[run.1] an answer to a changed %s is refused with it, and not kept', async (_, team) => {
    const folder = createTeamFolder(`team: ${team}\n`);
    if (team === 'asking.yaml') writeFileSync(join(folder, team), TEAM_WITH_BOSS);
    const text = readFileSync(join(folder, team), 'utf8');
    writeFileSync(join(folder, `other-${team}`), text.replace('You plan trips.', 'You plan long trips.'));
    const waiting = await json('run', ['-s', 'trip', '-n', '2', PROMPT], { folder, code: 3 });
    const id = waiting.kind === 'workflow' ? '' : (waiting.question?.id ?? '');
    const refused = await run(['continue', '--team', `other-${team}`, '--answer', `${id}=approve`], { folder });
    expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining('The prompt of "planner" changed')]);
    expect(await json('continue', [], { folder, code: 3 })).toMatchObject({ status: 'waiting' });
    const two = ['--answer', `${id}=reject`, '--answer', 'nobody=asked'];
    expect((await run(['continue', ...two], { folder })).code).toBe(13);
    expect(await json('continue', ['--answer', `${id}=approve`], { folder })).toMatchObject({ status: 'ended' });
  });
});

describe.concurrent('resume', () => {
  test('[cli.26] goes on from any checkpoint as a new branch, which is current then; undo takes it back', async () => {
    const folder = createTeamFolder();
    const first = await json('run', ['-s', 'trip', '-n', '4', PROMPT], { folder });
    const args = ['#4', '-n', '1', '--prompt', 'We are tired', '-b', 'slow', '--reason', 'too fast'];
    const resumed = await json('resume', args, { folder });
    if (resumed.kind === 'workflow') throw new Error('a team was to be resumed');
    expect(resumed).toMatchObject({ sessionId: 'trip', branch: 'slow', newMessages: 2, status: 'ended' });
    expect(resumed.messages.map(({ name }) => name)).toEqual(['user', 'planner', 'user', 'planner']);
    expect(await json('show', ['main', '--header'], { folder })).toMatchObject({
      checkpoint: { id: first.checkpointId },
    });
    expect((await json('continue', ['-n', '1'], { folder })).branch).toBe('slow');
    await ok(['switch', 'main'], { folder });
    const again = await json('resume', ['#4', '-n', '2', '--mode', 'frozen'], { folder, env: { FAIL: '1' } });
    expect((again.kind === 'chat' ? again.messages : []).map(({ content }) => content)).toEqual(
      (first.kind === 'chat' ? first.messages : []).slice(0, 4).map(({ content }) => content),
    );
    expect(await ok(['undo'], { folder })).toContain(`as branch "${again.branch}"`);
    expect((await json('branch', [], { folder })) as unknown[]).toHaveLength(2);
  });

  test('[cli.26] a frozen replay of a fork with a value set calls nothing', async () => {
    const folder = createTeamFolder();
    await json('run', ['-s', 'trip', '-n', '4', PROMPT], { folder });
    await ok(['fork', '#4', '-b', 'ed', '--set', 'agents.planner.totals.costUsd=1'], { folder });
    const replayed = await json('resume', ['ed', '-n', '2', '--mode', 'frozen'], { folder, env: { FAIL: '1' } });
    expect(replayed).toMatchObject({ status: 'ended', newMessages: 2 });
  });

  test('[cli.26] a kill in the middle leaves the new branch current; a frozen replay beyond the recording exits with 16', async () => {
    const folder = createTeamFolder();
    await json('run', ['-s', 'trip', '-n', '2', PROMPT], { folder });
    const killed = await run(['resume', '#4', '-b', 'again', '-n', '3', '--prompt', 'Rest'], {
      folder,
      env: { CRASH_AT_REPLY: '4' },
    });
    expect(killed.code).toBeNull();
    expect(await json('continue', [], { folder })).toMatchObject({ branch: 'again', status: 'ended' });
    expect((await run(['resume', 'main', '-n', '1', '--mode', 'frozen'], { folder })).code).toBe(16);
    type Listed = { readonly branch: string; readonly isCurrent: boolean };
    const undone: Listed[][] = [];
    for (const _ of ['the replay', 'the run that was killed']) {
      expect(await ok(['undo'], { folder })).toContain('Undone: resume chk_');
      undone.push((await json('branch', [], { folder })) as Listed[]);
    }
    // The run that was killed went on since: its branch stays.
    const ofKilled = [{ branch: 'again' }, { branch: 'main' }];
    expect(undone).toMatchObject([ofKilled, ofKilled]);
    expect(undone.map((each) => each.find(({ isCurrent }) => isCurrent)?.branch)).toEqual(['again', 'main']);
    for (const args of [['@', '--mode', 'fast'], ['@', '--on-drift', 'x'], ['@', '-n', '0'], []])
      expect([args, (await run(['resume', ...args], { folder })).code]).toEqual([args, 2]);
    expect((await run(['resume', 'nothing'], { folder })).code).toBe(13);
  });

  test('[cli.26] what the team no longer has is told, and nothing is done', async () => {
    const folder = createTeamFolder();
    await json('run', ['-s', 'trip', '-n', '1', PROMPT], { folder });
    writeFileSync(
      join(folder, 'bare.yaml'),
      'agents: [{ name: planner, default_reply: hm }, { name: critic, default_reply: hm }]\nspeaker_selection: round_robin\n',
    );
    const refused = await run(['resume', '@', '-n', '1', '--team', 'bare.yaml'], { folder });
    expect(refused.code).toBe(2);
    expect(refused.stderr).toContain('"offline-travellers" of "planner" is not registered');
    expect((await json('branch', [], { folder })) as unknown[]).toHaveLength(1);
  });
});

describe.concurrent('doctor', () => {
  test('[cli.13] tells who is in the team, and why it cannot be opened', LATER, async () => {
    const folder = createTeamFolder();
    await ok(['init'], { folder });
    const team = async (code: number, ...more: string[]) =>
      (await json('doctor', more, { folder, own: true, code })).checks.find(({ name }) => name === 'team');
    expect(await team(0, '--load')).toMatchObject({ status: 'ok', message: 'a chat of planner, critic' });
    writeFileSync(join(folder, 'travellers.mjs'), 'export const registry = {};\n');
    expect(await team(1, '--load')).toMatchObject({
      status: 'failed',
      message: expect.stringContaining('offline-travellers'),
    });
  });

  test('[cli.13] runs no code of the folder unless --load says so', async () => {
    const folder = createTeamFolder();
    await ok(['init'], { folder });
    const mark = join(folder, 'ran.txt');
    const ran = `import { writeFileSync } from 'node:fs';\nwriteFileSync(${JSON.stringify(mark)}, '');\n`;
    writeFileSync(join(folder, 'travellers.mjs'), `${ran}export const registry = {};\n`);
    const check = async () => (await json('doctor', [], { folder, own: true })).checks.at(-1);
    expect(await check()).toMatchObject({
      status: 'note',
      message: expect.stringContaining('a chat of planner, critic;'),
    });
    writeFileSync(join(folder, 'savestate.yaml'), 'team: travellers.mjs\n');
    expect(await check()).toMatchObject({ status: 'note', message: expect.stringContaining('travellers.mjs is code') });
    expect(existsSync(mark)).toBe(false);
    await run(['doctor', '--load'], { folder, own: true });
    expect(existsSync(mark)).toBe(true);
  });
});

describe.concurrent('a fleet', () => {
  test('[cli.24] is run, waits for the review of its plan, goes on with the answer, and takes another prompt from a checkpoint', async () => {
    const folder = createTeamFolder('team: fleet.mjs\n');
    const waiting = await json('run', ['-s', 'trip', PROMPT], { folder, code: 3 });
    expect(waiting).toMatchObject({
      kind: 'fleet',
      status: 'waiting',
      question: { id: 'plan-1', text: expect.stringContaining('The planner proposes'), choices: expect.any(Array) },
    });
    expect((await run(['continue', '--answer', 'plan-1=perhaps'], { folder })).code).toBe(2);
    const done = await json('continue', ['--answer', 'plan-1=approve'], { folder });
    expect(done).toMatchObject({ status: 'ended', reason: 'satisfied', answer: 'Walk up to the castle.' });
    const other = await json('resume', ['@~2', '--prompt', 'Slower', '-b', 'slow'], { folder });
    expect(other).toMatchObject({ kind: 'fleet', branch: 'slow', status: 'ended' });
    expect(await ok(['show', 'main'], { folder })).toContain('planner: We walk up to the castle.');
  });
});

describe.concurrent('what a team said', () => {
  test('[cli.7] show shows the conversation, and checkpoints say what was said', async () => {
    const folder = createTeamFolder();
    await ok(['run', '-s', 'trip', '-n', '1', PROMPT], { folder });
    const shown = await ok(['show'], { folder });
    expect(shown).toContain(
      `agents planner, critic\n\n[0] user: ${PROMPT}\n[1] planner: Step 1: walk up to the castle.\n`,
    );
    expect(await json('show', [], { folder })).toMatchObject({ state: { kind: 'group_chat' } });
    const rounds = await ok(['repl', '--eval', 'checkpoints 1'], { folder });
    expect(rounds.trim().split('\t').at(-1)).toBe('(main) planner: Step 1: walk up to the castle.');
  });
});
