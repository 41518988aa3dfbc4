import {
  appendFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { describe, expect, test } from 'vitest';
import { CheckpointManager } from '../../src/manager/checkpoint-manager.ts';
import { RequestAnswers } from '../../src/runtime/run/request-answers.ts';
import { APPROVALS } from '../../src/runtime/workflow/step/approvals.ts';
import { SqliteCheckpointStorage } from '../../src/storage/sqlite/sqlite-storage.ts';
import { LATER } from '../support/later.ts';
import { json, ok, type Ran, run } from './support/cli.ts';
import { createTeamFolder } from './support/team.ts';

/** A line of the command line, as it is typed. */
const words = (line: string): string[] => line.split(' ');

const INPUT = ['--input', '{"days":2}'];

describe.concurrent('workflows', () => {
  test('[cli.24] a file is run; what waits exits with 3; continue finds the file again and goes on with the answer', async () => {
    const folder = createTeamFolder('');
    const waiting = await json('run', ['packing.yaml', '-s', 'bag', ...INPUT], { folder, code: 3 });
    expect(waiting).toMatchObject({
      kind: 'workflow',
      status: 'waiting',
      questions: [{ id: 'agree', text: 'Take a coat for rain?', choices: ['approve', 'reject'] }],
      steps: [{ path: 'weather', status: 'done' }],
    });
    appendFileSync(join(folder, 'packing.yaml'), 'fleet: { orchestrator: { max_round_count: 3 } }\n');
    const stray = await run(['run', 'packing.yaml', '-s', 'bag2', ...INPUT], { folder });
    expect([stray.code, stray.stderr]).toEqual([2, expect.stringContaining('says fleet, which chats and fleets have')]);
    const text = readFileSync(join(folder, 'packing.yaml'), 'utf8');
    writeFileSync(join(folder, 'packing.yaml'), text.replace(/fleet: .*\n/, ''));
    const wrong = await run(['continue', '--answer', 'agree=aprove'], { folder });
    expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining('Did you mean "approve"?')]);
    expect((await run(['continue', '-n', '2'], { folder })).code).toBe(2);
    const { stdout, code } = await run(['continue', '--answer', 'agree=approve'], { folder });
    expect([code, stdout]).toEqual([0, 'done     weather\ndone     agree\ndone     pack\n2 shirts and a coat\n']);
    expect(await json('continue', [], { folder })).toMatchObject({
      status: 'completed',
      output: '2 shirts and a coat',
    });
    expect(await ok(['branch'], { folder })).not.toContain('answer/'); // [cli.11]
    expect(await ok(['branch', '--all'], { folder })).toMatch(/answer\/main\/agree/);
    const again = await json('resume', ['#3'], { folder, code: 3 });
    expect(again).toMatchObject({ kind: 'workflow', status: 'waiting', steps: [{ path: 'weather' }] });
    expect(again.branch).not.toBe('main');
    expect(await ok(['undo', '--list'], { folder })).toContain(`as branch "${again.branch}"`);
    expect(await json('continue', ['--answer', 'agree=approve'], { folder })).toMatchObject({ branch: again.branch });
    expect((await run(['resume', '@~1', '--prompt', 'x'], { folder })).code).toBe(2);
    const rejected = ['packing.yaml', '-s', 'other', ...INPUT];
    await json('run', rejected, { folder, code: 3 });
    const failed = await run(['run', ...rejected, '--answer', 'agree=reject'], { folder });
    expect([failed.code, failed.stdout]).toEqual([1, expect.stringContaining('Failed at agree')]);
  });

  test('[cli.24] an answer goes to the session that was told to give it, or is refused with the names of all that ask', async () => {
    const folder = createTeamFolder('');
    const { stdout } = await run(['run', 'packing.yaml', '-s', 'ann', ...INPUT], { folder });
    expect(stdout).toContain("Answer with: savestate continue --session ann --answer 'agree=...'");
    await run(['run', 'packing.yaml', '-s', 'bob', ...INPUT], { folder });
    const unnamed = await run(['continue', '--answer', 'agree=approve'], { folder });
    expect([unnamed.code, unnamed.stderr]).toEqual([2, expect.stringContaining('to "agree": ann, bob.')]);
    expect((await json('continue', ['-s', 'ann', '--answer', 'agree=approve'], { folder })).status).toBe('completed');
    expect(await json('continue', ['--answer', 'agree=approve', '-s', 'bob'], { folder })).toMatchObject({
      sessionId: 'bob',
      status: 'completed',
    });
    await run(['run', 'packing.yaml', '-s', 'cem', ...INPUT], { folder });
    const storage = new SqliteCheckpointStorage({ path: join(folder, '.savestate', 'checkpoints.db') });
    const manager = new CheckpointManager({ storage });
    const given = { sessionId: 'cem', requestId: 'agree', answer: 'approve', by: 'eve' };
    await new RequestAnswers(manager, APPROVALS).give(given);
    await manager.close();
    await run(['run', 'packing.yaml', '-s', 'dan', ...INPUT], { folder });
    // What was answered elsewhere is asked by nobody any more.
    expect((await json('continue', ['--answer', 'agree=approve'], { folder })).sessionId).toBe('dan');
    expect((await json('continue', ['-s', 'cem'], { folder })).status).toBe('completed');
  });

  test('[cli.24] an answer to a run whose workflow was changed is refused with it, and not kept', async () => {
    const folder = createTeamFolder('');
    await run(['run', 'packing.yaml', '-s', 'bag', ...INPUT], { folder });
    const [file, answer] = [join(folder, 'packing.yaml'), ['-s', 'bag', '--answer', 'agree=approve']];
    const text = readFileSync(file, 'utf8');
    writeFileSync(file, text.replace('Take a coat', 'Take two coats'));
    const refused = await run(['continue', ...answer], { folder });
    expect([refused.code, refused.stderr]).toEqual([15, expect.stringContaining('was changed since this run began')]);
    writeFileSync(file, text);
    expect(await json('continue', ['-s', 'bag'], { folder, code: 3 })).toMatchObject({ status: 'waiting' });
    expect(await json('continue', answer, { folder })).toMatchObject({ status: 'completed' });
  });

  test('[cli.24] continue and resume find a run whose workflow file names its storage, by its name and as the last one', async () => {
    const folder = createTeamFolder('');
    writeFileSync(join(folder, 'savestate.yaml'), '');
    mkdirSync(join(folder, 'flows'));
    for (const name of ['packing.mjs', 'packing.yaml']) cpSync(join(folder, name), join(folder, 'flows', name));
    const text = readFileSync(join(folder, 'packing.yaml'), 'utf8');
    const own = 'checkpoint: true\n  checkpointing: { storage_path: ./own }';
    writeFileSync(join(folder, 'flows/packing.yaml'), text.replace('checkpoint: true', own));
    const args = ['flows/packing.yaml', '-s', 'bag', ...INPUT];
    const { code, stderr } = await run(['run', ...args], { folder });
    expect([code, stderr]).toEqual([3, expect.stringMatching(/--storage file:\S*own/)]);
    expect([existsSync(join(folder, 'flows/own')), existsSync(join(folder, '.savestate'))]).toEqual([true, false]);
    const named = ['-s', 'bag', '--answer', 'agree=approve'];
    const strange = { folder, env: { XDG_STATE_HOME: join(folder, '.other') } };
    expect((await run(['continue', ...named], strange)).code).toBe(10);
    const file = ['--workflow', 'flows/packing.yaml'];
    expect(await json('continue', [...file, '-s', 'bag'], { ...strange, code: 3 })).toMatchObject({
      status: 'waiting',
    });
    expect(await json('continue', named, { folder })).toMatchObject({ status: 'completed' });
    expect(await json('resume', ['#3', '-s', 'bag'], { folder, code: 3 })).toMatchObject({ status: 'waiting' });
    await json('run', ['packing.yaml', '-s', 'late', ...INPUT], { folder, code: 3 });
    expect(await json('continue', [], { folder, code: 3 })).toMatchObject({ sessionId: 'late' });
    await json('continue', ['-s', 'bag'], { folder, code: 3 });
    expect(await json('continue', [], { folder, code: 3 })).toMatchObject({ sessionId: 'bag' });
  });

  test('[settings.6] the storage of the project is relative to its own file, also for a workflow elsewhere', async () => {
    const folder = createTeamFolder('');
    writeFileSync(join(folder, 'savestate.yaml'), '');
    writeFileSync(join(folder, 'workflow.yaml'), 'workflow: { checkpointing: { storage_path: ./all } }\n');
    mkdirSync(join(folder, 'flows'));
    for (const name of ['packing.mjs', 'packing.yaml']) cpSync(join(folder, name), join(folder, 'flows', name));
    await json('run', ['flows/packing.yaml', '-s', 'bag', ...INPUT], { folder, code: 3 });
    expect([existsSync(join(folder, 'all')), existsSync(join(folder, 'flows/all'))]).toEqual([true, false]);
    expect(await json('continue', [], { folder, code: 3 })).toMatchObject({ sessionId: 'bag' });
  });

  test('[cli.24] killed or stopped in the middle it is gone on with; wrong input is told', async () => {
    const folder = createTeamFolder('');
    const stopped = await run(['run', 'packing.yaml', '-s', 'bag', ...INPUT], {
      folder,
      env: { DELAY_MS: '60000', STARTED: '1' },
      onOutput: (text, kill) => text.includes('looking') && kill('SIGINT'),
    });
    expect([stopped.code, stopped.stderr]).toEqual([130, 'looking\nStopped.\n']);
    mkdirSync(join(folder, 'below'));
    const below = { folder: join(folder, 'below'), env: { XDG_STATE_HOME: join(folder, '.state') }, code: 3 };
    expect(await json('continue', [], below)).toMatchObject({ status: 'waiting' }); // from another folder, too
    for (const [args, code] of [
      [['missing.yaml'], 13],
      [['packing.yaml', '--input', '{'], 2],
      [['packing.yaml', '--registry', 'missing.mjs'], 13],
      [['packing.yaml', '--registry', 'fleet.mjs'], 2],
      [['packing.yaml', '--answer', 'agree=approve', '-s', 'nobody'], 13],
      [['team.yaml'], 2],
    ] as const)
      expect([args, (await run(['run', ...args], { folder })).code]).toEqual([args, code]);
  });

  test('[run.3] a process that was killed holds nothing up; as long as it is there it is named', LATER, async () => {
    const folder = createTeamFolder('');
    let refused: Promise<Ran> | undefined;
    await run(['run', 'packing.yaml', '-s', 'bag', ...INPUT], {
      folder,
      env: { DELAY_MS: '60000', STARTED: '1' },
      onOutput: (text, kill) => {
        if (!text.includes('looking') || refused !== undefined) return;
        refused = run(['continue'], { folder });
        void refused.finally(() => kill('SIGKILL'));
      },
    });
    expect((await refused)?.stderr).toMatch(
      /"bag" is being worked on already, .* by process \d+, whose lease lasts until 20/,
    );
    expect(await json('continue', [], { folder, code: 3 })).toMatchObject({ status: 'waiting' });
  });

  test('[workflow.10] a completed run goes on under a definition with a step more; a step that changed is refused', async () => {
    const folder = createTeamFolder('');
    const args = ['packing.yaml', '-s', 'bag'];
    await json('run', [...args, ...INPUT], { folder, code: 3 });
    await json('continue', ['--answer', 'agree=approve'], { folder });
    const file = join(folder, 'packing.yaml');
    appendFileSync(file, '\n  - id: again\n    function: look_at_sky\n    input: 1\n');
    expect(await json('run', args, { folder })).toMatchObject({
      status: 'completed',
      steps: [{}, {}, {}, { path: 'again' }],
    });
    writeFileSync(file, readFileSync(file, 'utf8').replace('Take a coat', 'Take two coats'));
    const refused = await run(['continue'], { folder });
    expect([refused.code, refused.stderr]).toEqual([
      expect.any(Number),
      expect.stringContaining('--on-difference accept'),
    ]);
    expect(refused.code).not.toBe(0);
    const accepted = await run(['continue', '--on-difference', 'accept'], { folder });
    expect([accepted.code, accepted.stderr]).toEqual([
      0,
      expect.stringContaining('Step "agree", which has begun, changed.'),
    ]);
  });

  test('[cli.23] what a checkpoint says of files and modules is not loaded; the command line or savestate.yaml names them', async () => {
    const folder = createTeamFolder('');
    const evil = join(dirname(folder), `${basename(folder)}-evil`);
    mkdirSync(evil);
    writeFileSync(
      join(evil, 'wf.mjs'),
      `import { writeFileSync } from 'node:fs'; writeFileSync(new URL('./PWNED', import.meta.url), ''); export const registry = {};`,
    );
    cpSync(join(folder, 'packing.yaml'), join(evil, 'wf.yaml'));
    const file = join(relative(folder, evil), 'wf.yaml');
    mkdirSync(join(folder, '.savestate'));
    const storage = new SqliteCheckpointStorage({ path: join(folder, '.savestate', 'checkpoints.db') });
    const manager = new CheckpointManager({ storage });
    const session = await manager.session('bag');
    const state = { kind: 'workflow_run', workflow: 'packing' };
    await session.save(state, {
      agentId: 'packing',
      metadata: { workflowFile: file, workflowRegistry: file.replace('yaml', 'mjs') },
    });
    await manager.close();
    for (const args of [['continue'], ['resume', '@']]) {
      const { code, stderr } = await run([...args, '-s', 'bag'], { folder });
      expect([code, stderr]).toEqual([13, expect.stringContaining('files that a checkpoint names are not loaded')]);
    }
    expect(existsSync(join(evil, 'PWNED'))).toBe(false);
    await json('run', ['packing.yaml', '-s', 'mine', ...INPUT], { folder, code: 3 });
    const elsewhere = { folder, env: { XDG_STATE_HOME: join(folder, 'another-machine') }, code: 3 } as const;
    expect((await run(['continue', '-s', 'mine'], elsewhere)).code).toBe(13);
    await json('continue', ['-s', 'mine', '--workflow', 'packing.yaml', '--registry', 'packing.mjs'], elsewhere);
    appendFileSync(join(folder, 'savestate.yaml'), 'workflow: packing.yaml\n');
    const third = { folder, env: { XDG_STATE_HOME: join(folder, 'a-third') }, code: 3 } as const;
    expect(await json('continue', ['-s', 'mine'], third)).toMatchObject({ status: 'waiting' });
  });

  test('[cli.23] a team file may name a module of its own folder only', async () => {
    const folder = createTeamFolder();
    mkdirSync(join(folder, 'other'));
    const team = readFileSync(join(folder, 'team.yaml'), 'utf8');
    writeFileSync(join(folder, 'other', 'team.yaml'), team.replace(/registry: .*/, 'registry: ../travellers.mjs'));
    const theirs = ['run', 'Hello', '--team', 'other/team.yaml', '-n', '1'];
    const { code, stderr } = await run(theirs, { folder });
    expect([code, stderr]).toEqual([2, expect.stringContaining('name it yourself with --registry')]);
    symlinkSync(join(folder, 'travellers.mjs'), join(folder, 'other', 'link.mjs'));
    writeFileSync(join(folder, 'other', 'team.yaml'), team.replace(/registry: .*/, 'registry: link.mjs'));
    expect((await run(theirs, { folder })).code).toBe(2);
    expect((await run([...theirs, '--registry', 'travellers.mjs'], { folder })).code).toBe(0);
    appendFileSync(join(folder, 'savestate.yaml'), 'registry: travellers.mjs\n');
    expect((await run(theirs, { folder })).code).toBe(0);
  });

  test('[cli.23] a module or team that is a folder is refused in the words of who named it', async () => {
    const folder = createTeamFolder();
    const words = '"x.mjs?../../" was named where a file is needed';
    const refused = { code: 2, stderr: expect.stringContaining(words) };
    expect(await run(['run', 'Hello', '--team', 'x.mjs?../../'], { folder })).toMatchObject(refused);
    expect(await run(['run', 'packing.yaml', '--registry', 'x.mjs?../../'], { folder })).toMatchObject(refused);
    appendFileSync(join(folder, 'savestate.yaml'), 'registry: "x.mjs?../../"\n');
    expect(await run(['run', 'Hello'], { folder })).toMatchObject(refused);
  });

  test('[workflow.2] check tells every problem with line and column, names that the code does not have, and exits with 1', async () => {
    const folder = createTeamFolder('');
    expect(await ok(['workflow', 'check', 'packing.yaml'], { folder })).toBe('packing.yaml is well.\n');
    const text = readFileSync(join(folder, 'packing.yaml'), 'utf8');
    writeFileSync(
      join(folder, 'bad.yaml'),
      text.replace('function: pack', 'functoin: pack').replace('weather', 'agree'),
    );
    const bad = await json('workflow', ['check', 'bad.yaml'], { folder, code: 1 });
    expect(bad).toMatchObject({
      isValid: false,
      problems: expect.arrayContaining([
        expect.objectContaining({ line: 18, column: 5, suggestion: 'function', path: 'steps[2].functoin' }),
      ]),
    });
    expect((await run(['workflow', 'check', 'bad.yaml'], { folder })).stdout).toContain(
      'bad.yaml:18:5: steps[2].functoin',
    );
    writeFileSync(join(folder, 'packing.yaml'), text.replace('look_at_sky', 'look_at_sea'));
    const checked = ['workflow', 'check', 'packing.yaml'];
    expect(await run(checked, { folder })).toMatchObject({ code: 0, stderr: expect.stringContaining('--registry') });
    const unknown = await run([...checked, '--registry', 'packing.mjs'], { folder });
    expect([unknown.code, unknown.stdout]).toEqual([1, expect.stringContaining('"look_at_sea"')]);
    expect((await run(['workflow', 'check', 'missing.yaml'], { folder })).code).toBe(13);
    expect((await run(['workflow', 'paint'], { folder })).code).toBe(2);
    expect((await run(['workflow', 'check'], { folder })).code).toBe(2);
  });

  test('[workflow.2] schema prints the JSON Schema of files', async () => {
    const folder = createTeamFolder('');
    expect(JSON.parse(await ok(['workflow', 'schema'], { folder }))).toMatchObject({ properties: { steps: {} } });
  });

  test('[cli.24] an option that this kind of run does not have is refused, and nothing is made', async () => {
    const folder = createTeamFolder();
    const before = readdirSync(folder);
    const refused: [line: string, option: RegExp][] = [
      ['run packing.yaml --logs x', /workflow has no --logs/],
      ['run packing.yaml -n 3', /workflow has no --rounds/],
      ['run packing.yaml --prompt-file f', /workflow has no --prompt-file/],
      ['run packing.yaml --team nope.yaml', /workflow has no --team/],
      ['run packing.yaml --allow-code', /workflow has no --allow-code/],
      ['run hello --input 5', /group chat has no --input; that is for a workflow/],
      ['run hello --answer zz=1', /--answer is for a workflow/],
      ['run hello --prompt-file f', /not both/],
      ['run hello --team fleet.mjs --logs x', /fleet has no --logs/],
      ['repl --eval help --team fleet.mjs --logs x', /fleet has no --logs/],
    ];
    for (const [line, message] of refused) {
      const { code, stderr } = await run(words(line), { folder });
      expect([line, code, stderr]).toEqual([line, 2, expect.stringMatching(message)]);
    }
    expect(readdirSync(folder)).toEqual(before);

    await json('run', ['packing.yaml', '-s', 'bag', '--user', 'bo', ...INPUT], { folder, code: 3 });
    await json('run', ['Plan a day', '-s', 'fleet', '--team', 'fleet.mjs'], { folder, code: 3 });
    await json('run', ['Plan a day', '-s', 'chat', '-n', '1'], { folder });
    const later: [line: string, option: RegExp][] = [
      ['continue -s bag -n 2', /workflow has no --rounds/],
      ['continue -s bag --team team.yaml', /workflow has no --team/],
      ['continue -s chat --workflow packing.yaml', /group chat has no --workflow/],
      ['resume @ -s bag --reason why', /workflow has no --reason/],
      ['resume @ -s bag --strip-signal', /workflow has no --strip-signal/],
      ['resume @ -s fleet --team fleet.mjs --restore-files', /fleet has no --restore-files/],
    ];
    for (const [line, message] of later) {
      const { code, stderr } = await run(words(line), { folder });
      expect([line, code, stderr]).toEqual([line, 2, expect.stringMatching(message)]);
    }
    await ok(['continue', '-s', 'bag', '--answer', 'agree=approve'], { folder });
    const users = (await json('log', ['-s', 'bag'], { folder })).map(({ userId }) => userId);
    expect(new Set(users)).toEqual(new Set(['bo']));
  });
});
