import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { LATER } from '../support/later.ts';
import { json, ok, run } from './support/cli.ts';
import { CHAT, sharedChat } from './support/fixture.ts';
import { newFolder } from './support/folder.ts';
import { OUTPUT_SCHEMAS } from './support/output-schemas.ts';
import { Screen } from './support/pty.ts';
import { createTeamFolder, TEAM_WITH_BOSS } from './support/team.ts';

const chat = sharedChat();

describe.concurrent('lines from a script', () => {
  test('[repl.1] lists checkpoints with round numbers and times, resumes one, and shows from there', async () => {
    const { folder, ids } = await chat.get();
    const text = await ok(
      [
        'repl',
        '--eval',
        `checkpoints 2; list-checkpoints 1; resume ${ids[3]?.slice(0, 20)}; where; show @:messages[-1].role; back 2; where`,
      ],
      { folder },
    );
    const lines = text
      .trim()
      .split('\n')
      .map((line) => line.split('\t'));
    expect(lines.slice(0, 3)).toEqual([
      ['7', ids[7], '2026-01-31 15:00:00', '566 B', 'FAILED user: Question 7: where is my parcel?'],
      ['8', ids[8], '2026-01-31 16:00:00', '640 B', '(main) FAILED assistant: Answer 8: it is on its way to you.'],
      ['8', ids[8], '2026-01-31 16:00:00', '640 B', '(main) FAILED assistant: Answer 8: it is on its way to you.'],
    ]);
    expect(lines.slice(3).flat()).toEqual([
      `session ${CHAT}, branch main, round 3, ${ids[3]}`,
      'user',
      `session ${CHAT}, branch main, round 1, ${ids[1]}`,
    ]);
  });

  test('[repl.3] lines come from --eval or a pipe; the first error ends it with its code', async () => {
    const { folder } = await chat.get();
    const piped = await run(['repl'], { folder, input: 'back 1\nwhere\nquit\nwhere\n' });
    expect(piped).toMatchObject({ code: 0, stdout: expect.stringMatching(/^session .* round 7, \S+\n$/) });
    expect(await run(['repl', '--eval', 'back 99; where'], { folder })).toMatchObject({ code: 13, stdout: '' });
    expect(await run(['repl', '--eval', '/show nothing; where'], { folder })).toMatchObject({ code: 13, stdout: '' });
    expect(await run(['repl', '--eval', '/nonsense'], { folder })).toMatchObject({ code: 2 });
    for (const line of ['log -s other', 'fork --edit', '/repl', '/prune --keep-last 1'])
      expect([line, (await run(['repl', '--eval', line], { folder })).code]).toEqual([line, 2]);
    const rounds = JSON.parse(await ok(['repl', '--json', '--eval', 'checkpoints 3'], { folder })) as unknown;
    expect(OUTPUT_SCHEMAS.log.parse(rounds)).toHaveLength(3);
    const help = await ok(['repl', '--eval', 'help; help diff'], { folder });
    expect(help).toContain('resume <checkpoint>');
    expect(help).toContain('Usage: savestate diff');
  });

  test(
    '[repl.2] sentences that begin with the name of a command are said to the team; without one that is told',
    LATER,
    async () => {
      const { folder } = await chat.get();
      for (const sentence of [
        'show me the money',
        'help me write a mail',
        'resume work on the plan',
        'branch office hours',
        'tag along',
        'hello there',
      ]) {
        const { code, stdout, stderr } = await run(['repl', '--eval', sentence], { folder });
        expect([sentence, code, stdout]).toEqual([sentence, 2, '']);
        expect(stderr).toContain('No team is configured');
      }
    },
  );

  test('[repl.1] the commands of the command line work on the open storage', async () => {
    const { folder, ids, forkId } = await chat.copy();
    const text = await ok(
      [
        'repl',
        '--eval',
        `fork v1 -b mine --set tone=soft; branch; branch mine; where; diff v1 mine --stat; tag t-1; undo; use other; sessions`,
      ],
      { folder },
    );
    expect(text).toContain(`began at #4 ${ids[4]} with an edit`);
    expect(text).toContain(`what-if\t${forkId}`);
    expect(text).toMatch(/branch mine, (round 4|#5)/);
    expect(text).toContain('1 modified');
    expect(text).toContain('Undone: tag');
    expect((await json('branch', [], { folder })) as unknown[]).toHaveLength(3);
    expect((await run(['repl', '--eval', '/use nobody'], { folder })).code).toBe(13);
  });

  test('[repl.3] without a storage, or on an empty one, it says so', async () => {
    expect((await run(['repl', '--eval', 'where'])).code).toBe(10);
    const folder = newFolder();
    await ok(['init'], { folder });
    expect(await run(['repl', '--eval', 'checkpoints; sessions'], { folder })).toMatchObject({ code: 0, stdout: '' });
    expect((await run(['repl', '--eval', 'where'], { folder })).code).toBe(13);
  });
});

describe.concurrent('a person at a terminal', () => {
  test('[repl.3] bare savestate is the REPL: it shows where one is, completes ids, keeps its history, ends with Ctrl-D', async () => {
    const { folder, ids } = await chat.copy();
    const screen = new Screen([], { folder });
    let at = await screen.shows(`${CHAT}/main #8>`);
    screen.enter('back 2');
    at = await screen.shows(`${CHAT}/main #6 (resumed)>`, at);
    screen.type(`show ${ids[2]?.slice(0, -2)}\t`);
    at = await screen.shows(`show ${ids[2]}`, at);
    screen.enter('');
    at = await screen.shows('[1] assistant: Answer 2', at);
    at = await screen.shows('(resumed)>', at);
    screen.pressInterrupt();
    at = await screen.shows('Nothing is under way', at);
    screen.type('\u001b[A');
    at = await screen.shows(`show ${ids[2]}`, at); // the last line again
    screen.type('\u0015\u0004');
    expect(await screen.ended).toBe(0);
    const state = join(folder, '.state', 'savestate');
    const [history] = readdirSync(state, { recursive: true })
      .map(String)
      .filter((name) => name.endsWith('history'));
    expect(
      readFileSync(join(state, history ?? ''), 'utf8')
        .split('\n')
        .slice(0, 2),
    ).toEqual(['back 2', `show ${ids[2]}`]);
    const again = new Screen(['repl'], { folder });
    await again.shows('#8>');
    again.type('\u001b[A');
    await again.shows(`show ${ids[2]}`);
    again.type('\u0015');
    again.enter('quit');
    expect(await again.ended).toBe(0);
  });
});

describe.concurrent('the configured team', () => {
  test('[repl.4] answers prompts in a session of its own; run goes on; resume and a prompt make a branch; undo takes it back', async () => {
    const folder = createTeamFolder();
    await ok(['init'], { folder });
    const lines = [
      '/new trip',
      'Plan a day in Lisbon',
      'where',
      'run 1',
      'resume #4',
      'resume it slowly, we are tired',
      'where',
      'undo',
      'run the numbers again',
      'where',
    ];
    const text = await ok(['repl', '-n', '2', '--eval', lines.join(';')], { folder });
    expect(text.split('\n').filter((line) => line.startsWith('session '))).toEqual([
      expect.stringMatching(/^session trip, branch main, round \d+, /),
      expect.stringMatching(/^session trip, branch fork-4, round \d+, /),
      expect.stringMatching(/^session trip, branch main, round \d+, /),
    ]);
    expect(text).toContain('Ended: 1 of 1 round was run. For more: run 5');
    expect(text).toContain('user: resume it slowly, we are tired\n\nplanner: Step 2: sleep long');
    expect(text).toContain('user: run the numbers again');
    expect(text).toMatch(/Undone: resume chk_\w+ as branch "fork-4"/);
    expect((await run(['repl', '--eval', 'run 1', '-s', 'nothing'], { folder })).code).toBe(13);
    expect((await run(['repl', '-n', '0', '--eval', 'where'], { folder })).code).toBe(2);
    const first = ['repl', '-n', '1', '-s', 'mine', '--eval', 'Plan a day in Lisbon;where'];
    expect(await ok(first, { folder: createTeamFolder() })).toContain('session mine, branch main'); // without a storage yet
  });

  test('[repl.4] Ctrl-C stops the run at its last checkpoint and not the REPL; run goes on with it', async () => {
    const folder = createTeamFolder();
    await ok(['init'], { folder });
    const screen = new Screen(['-s', 'trip', 'repl', '-n', '2'], { folder, env: { DELAY_MS: '1500' } });
    let at = await screen.shows('trip/main>');
    screen.enter('Plan a day in Lisbon');
    at = await screen.shows('user: Plan a day in Lisbon', at);
    screen.pressInterrupt();
    at = await screen.shows('Stopped at the last checkpoint. Continue with: run', at);
    at = await screen.shows('trip/main #2>', at);
    screen.enter('run');
    at = await screen.shows('planner: Step 1: walk up to the castle.', at);
    at = await screen.shows('Ended: 2 of 2 rounds', at);
    at = await screen.shows(/trip\/main #\d+>/, at);
    screen.type('\u0004');
    expect(await screen.ended).toBe(0);
  });

  test('[repl.4] a question of the team is answered by the next line', async () => {
    const folder = createTeamFolder('team: asking.yaml\n');
    writeFileSync(join(folder, 'asking.yaml'), TEAM_WITH_BOSS);
    await ok(['init'], { folder });
    const text = await ok(['repl', '-n', '2', '--eval', 'Plan a day; show me something cheaper'], { folder });
    expect(text).toMatch(/Waiting for you\. boss: .*\nAnswer with: your next line/);
    expect(text).toContain('boss: show me something cheaper');
  });
});

describe.concurrent('a fleet', () => {
  test('[repl.4] its answer is shown, its plan is reviewed with what the REPL says may be typed, also after a restart', async () => {
    const folder = createTeamFolder('team: fleet.mjs\n');
    const first = await ok(['repl', '--eval', '/new trip; Plan a day in Lisbon'], { folder });
    expect(first).toContain('Waiting for you.');
    expect(first).toContain('Answer with: approve, edit: <new plan>, revise: <what to change> or reject');
    const screen = new Screen(['repl'], { folder, columns: 80 });
    let at = await screen.shows('team     a fleet of ');
    at = await screen.shows('session  trip, branch main, round 0', at);
    at = await screen.shows('Answer with: approve, edit: <new plan>', at);
    screen.enter('edit: Walk slowly.');
    at = await screen.shows('Walk up to the castle.\n\nEnded: ', at);
    screen.enter('checkpoints');
    at = await screen.shows('round  checkpoint', at);
    screen.enter('quit');
    expect(await screen.ended).toBe(0);
    const rounds = JSON.parse(await ok(['repl', '--json', '--eval', 'checkpoints'], { folder })) as unknown;
    const numbers = OUTPUT_SCHEMAS.log.parse(rounds).map(({ metadata }) => Number(metadata?.round));
    const table = (await ok(['repl', '--eval', 'checkpoints'], { folder })).trim().split('\n');
    const last = table.at(-1)?.split('\t') ?? [];
    expect(last[0]).toBe(String(numbers[0]));
    expect(last[4]).toContain('Walk up to the castle.'); // the end says the answer
    expect(new Set(table.map((line) => line.split('\t')[4])).size).toBe(table.length); // nothing twice
  });
});

describe.concurrent('rounds', () => {
  test('[repl.1] are those of the conversation: one row a message, back takes the last one away, their numbers can be typed', async () => {
    const folder = createTeamFolder();
    await ok(['run', '-s', 'trip', '-n', '4', 'Plan a day'], { folder });
    const table = (await ok(['repl', '--eval', 'checkpoints'], { folder })).trim().split('\n');
    expect(table.map((line) => line.split('\t')[0])).toEqual(['0', '1', '2', '3', '4']);
    const text = await ok(['repl', '--eval', 'where; back 1; where; resume 4; where; resume 2; where; show 2'], {
      folder,
    });
    expect([...text.matchAll(/branch main, round (\d)/g)].map(([, round]) => round)).toEqual(['4', '3', '4', '2']);
    const shown = await ok(['repl', '--json', '--eval', 'back 1; show @:chat.messages'], { folder });
    expect((JSON.parse(shown) as { value: unknown[] }).value).toHaveLength(4); // of five
    expect((await run(['repl', '--eval', 'resume 9'], { folder })).code).toBe(13);
    const [, , planner] = table;
    const id = planner?.split('\t')[1] ?? '';
    expect(await ok(['repl', '--eval', `resume ${id.slice(4, 17)}; where`], { folder })).toContain(id);
  });

  test('[repl.1] after resume and a prompt there is still one row a message, each with a number that can be typed', async () => {
    const folder = createTeamFolder();
    const lines = 'Plan a day in Lisbon\nresume 3\nMake it slower\ncheckpoints\n';
    const { stdout } = await run(['repl', '--team', 'team.yaml', '-n', '4'], { folder, input: lines });
    const table = stdout.split('\n').flatMap((line) => (line.includes('\tchk_') ? [line.split('\t')] : []));
    const { value } = JSON.parse(await ok(['show', '@:chat.messages', '--json'], { folder })) as {
      value: { name: string; content: string }[];
    };
    expect(table.map(([, , , , what]) => what?.replace(/^\(.*?\) /, ''))).toEqual(
      value.map(({ name, content }) => `${name}: ${content}`),
    );
    const numbers = table.map(([number]) => number ?? '');
    expect([new Set(numbers).size, numbers.slice(0, 4)]).toEqual([table.length, ['0', '1', '2', '3']]);
    const moves = numbers.map((number) => `resume ${number}; where`).join('; ');
    const places = [...(await ok(['repl', '--eval', moves], { folder })).matchAll(/chk_\w+/g)].map(([id]) => id);
    expect(places).toEqual(table.map(([, id]) => id));
  });

  test('[cli.3] on a narrow screen no line is wider than it, and ids are short', LATER, async () => {
    const folder = createTeamFolder();
    await ok(['run', '-s', 'trip', '-n', '3', 'Plan a day with everything that can be seen there, and do not hurry'], {
      folder,
    });
    const screen = new Screen(['repl'], { folder, columns: 80 });
    let at = await screen.shows('trip/main #');
    const from = at;
    screen.enter('checkpoints');
    at = await screen.shows('trip/main #', at);
    screen.enter('help');
    at = await screen.shows('trip/main #', at);
    for (const line of screen.text.slice(from, at).split('\n')) expect(line.length).toBeLessThanOrEqual(80);
    expect(screen.text.slice(from, at)).not.toContain('chk_');
    screen.enter('quit');
    expect(await screen.ended).toBe(0);
  });
});

describe.concurrent('what is not said to the team', () => {
  test('[repl.2] a line that begins like a command is explained; its own hints can be typed', LATER, async () => {
    const folder = createTeamFolder();
    await ok(['run', '-s', 'trip', '-n', '2', 'Plan a day'], { folder });
    const before = await json('log', ['--all'], { folder });
    for (const line of [
      'use nope',
      'resume',
      'sessions foo',
      'memory list',
      'savestate switch try1',
      'shwo',
      'run tests',
    ]) {
      const { code, stderr } = await run(['repl', '--eval', line], { folder });
      expect([line, code]).not.toEqual([line, 0]);
      expect([line, stderr]).toEqual([line, expect.stringMatching(/^error: /)]);
    }
    expect(await json('log', ['--all'], { folder })).toEqual(before);
    const text = await ok(['repl', '--eval', 'fork 1 -b try1; savestate switch try1; where'], { folder });
    expect(text).toContain('branch try1, round 1'); // its head is a checkpoint of main
    expect(await ok(['branch'], { folder })).toMatch(/^\*\ttry1/m);
  });

  test('[repl.2] what is typed while the team talks changes nothing, and answers nothing', async () => {
    const folder = createTeamFolder();
    await ok(['run', '-s', 'trip', '-n', '1', 'Plan a day'], { folder });
    await ok(['tag', 'v-1'], { folder });
    const screen = new Screen(['repl', '-n', '1'], { folder, env: { DELAY_MS: '1500' } });
    let at = await screen.shows('trip/main #');
    screen.enter('Slower, please');
    at = await screen.shows('user: Slower, please', at);
    screen.enter('undo');
    screen.enter('And cheaper');
    screen.enter('where');
    screen.pressInterrupt();
    at = await screen.shows('typed while the team was talking: undo', at);
    at = await screen.shows('typed while the team was talking: And cheaper', at);
    at = await screen.shows('session trip, branch main, round', at);
    screen.enter('quit');
    expect(await screen.ended).toBe(0);
    expect(await ok(['tag'], { folder })).toContain('v-1');
    expect(await ok(['show', '@:chat.messages', '--json'], { folder })).not.toContain('cheaper');
  });

  test(
    '[repl.2] numbers that mean nothing are refused in words of the REPL, and not said to the team of another session',
    LATER,
    async () => {
      const folder = createTeamFolder();
      await ok(['run', '-s', 'trip', '-n', '2', 'Plan a day'], { folder });
      const before = await json('log', ['--all'], { folder });
      for (const [line, words] of [
        ['run -5', 'The number of rounds must be a whole number, 0 or more; found "-5".'],
        ['/run -5', 'The number of rounds must be a whole number'],
        ['run 1.5', 'The number of rounds must be a whole number'],
        ['run 0', 'The number of rounds must be 1 or more; found "0".'],
        ['checkpoints 0', 'The count must be 1 or more'],
        ['tag 5', 'A tag cannot be called "5"'],
      ] as const)
        expect([line, await run(['repl', '--team', 'team.yaml', '--eval', line], { folder })]).toMatchObject([
          line,
          { code: 2, stderr: expect.stringContaining(words) },
        ]);
      expect(await run(['repl', '--eval', '""'], { folder })).toMatchObject({ code: 0, stdout: '' });
      expect(await json('log', ['--all'], { folder })).toEqual(before);
    },
  );

  test('[repl.1] what was chosen with --team holds for commands; new says what begins; checkpoints that there are more', async () => {
    const folder = createTeamFolder('');
    const lines = ['/new trip', 'where', 'run -n 2 --memory m.db "Plan a day"', 'checkpoints 2'];
    const { code, stdout, stderr } = await run(['repl', '--team', 'team.yaml', '--eval', lines.join(';')], { folder });
    expect([code, stderr.match(/Your next prompt starts session "trip"/g)]).toEqual([0, expect.any(Array)]);
    expect(stderr.match(/Your next prompt starts session "trip"/g)).toHaveLength(2);
    expect(stdout).toContain('planner: Step 1');
    expect(stderr).toContain('There are earlier ones. For twice as many: checkpoints 4');
    expect(existsSync(join(folder, 'm.db'))).toBe(true);
    expect((await run(['repl', '--eval', 'checkpoints'], { folder })).stderr).not.toContain('earlier ones');
  });
});

describe.concurrent('where one is', () => {
  test('[repl.1] it begins with team, storage and session; without a team file or a storage one looks around', async () => {
    const folder = createTeamFolder();
    const screen = new Screen(['repl'], { folder, columns: 80 });
    let at = await screen.shows('team     a chat of planner, critic (team.yaml)');
    at = await screen.shows('storage  sqlite:.savestate/checkpoints.db, not made yet', at);
    screen.enter('where');
    at = await screen.shows('error: There is no storage', at);
    screen.enter('new trip');
    at = await screen.shows('starts session "trip"', at);
    screen.enter('Plan a day');
    at = await screen.shows('planner: Step 1', at);
    at = await screen.shows('trip/main #', at);
    screen.enter('new trip');
    at = await screen.shows('Session "trip" already exists. Continue it with: use trip', at);
    screen.enter('quit');
    expect(await screen.ended).toBe(0);
    const blind = ['repl', '--team', 'missing.yaml', '--eval'];
    expect(await ok([...blind, 'where'], { folder })).toContain('session trip');
    await ok(['rewind', 'message 1', '-b', 'earlier'], { folder });
    const again = new Screen(['repl'], { folder, columns: 80 });
    at = await again.shows('session  trip, branch earlier, round 0');
    await again.shows('trip/earlier #', at);
    again.enter('quit');
    expect(await again.ended).toBe(0);
    expect(await run([...blind, 'Hello there'], { folder })).toMatchObject({
      code: 13,
      stderr: expect.stringContaining('missing.yaml cannot be read'),
    });
  });

  test('[repl.3] nothing to read is told, with what to do', LATER, async () => {
    const { folder } = await chat.get();
    expect(await run(['repl'], { folder, input: '' })).toMatchObject({
      code: 0,
      stderr: expect.stringContaining('--eval'),
    });
  });
});
