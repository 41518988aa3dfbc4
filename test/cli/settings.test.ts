import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { CheckpointManager } from '../../src/manager/checkpoint-manager.ts';
import { SqliteCheckpointStorage } from '../../src/storage/sqlite/sqlite-storage.ts';
import { LATER } from '../support/later.ts';
import { json, ok, run } from './support/cli.ts';
import { newFolder } from './support/folder.ts';
import { createTeamFolder } from './support/team.ts';

const REQUIREMENT = `workflow:
  checkpointing:
    enabled: true
    storage_type: file         # or "memory"
    storage_path: ./checkpoints
    cleanup_after_days: 30
    auto_resume_on_failure: false
`;
const DAY_MS = 86_400_000;

/** A project with the example team and settings, and nothing else that says where checkpoints are. */
function createProject(settings: string, config = 'team: team.yaml\n'): string {
  const folder = createTeamFolder();
  writeFileSync(join(folder, 'savestate.yaml'), config);
  writeFileSync(join(folder, 'workflow.yaml'), settings);
  return folder;
}

test.each(['savestate.yaml', 'workflow.yaml', 'configured.yaml'])(
  '[settings.2] %s that never ends, or is far too large, is refused and not read',
  async (name) => {
    const folder = newFolder();
    writeFileSync(join(folder, 'savestate.yaml'), name === 'configured.yaml' ? 'settings: configured.yaml\n' : '');
    rmSync(join(folder, name), { force: true });
    symlinkSync('/dev/zero', join(folder, name));
    expect((await run(['log'], { folder })).stderr).toContain('is no regular file, and was not read');
    rmSync(join(folder, name));
    writeFileSync(join(folder, name), '');
    truncateSync(join(folder, name), 8 * 1024 * 1024 * 1024);
    expect(await run(['log'], { folder })).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('larger than 4 MiB'),
    });
  },
);

test('[settings.2] a file that a configuration names, and that is something else, is not quoted', async () => {
  const folder = createProject('', 'settings: private\n');
  writeFileSync(join(folder, 'private'), 'hunter2:x:0:0:hunter2\nmore\n');
  const { code, stderr } = await run(['sessions', '--json'], { folder });
  expect(code).toBe(2);
  expect(stderr).toContain('1:1 must be a mapping');
  expect(stderr).not.toContain('hunter2');
});

/** A model that fails as often as it is told to, and then answers. */
const FLAKY = `import { readFileSync, writeFileSync } from 'node:fs';
import { scriptedModel } from 'savestate/testing';
const model = scriptedModel(() => {
  const failures = Number(readFileSync('failures', 'utf8'));
  if (failures > 0) { writeFileSync('failures', String(failures - 1)); throw new Error('503'); }
  return 'Step 1: walk.';
}, { id: 'offline-travellers' });
export const registry = { models: { 'offline-travellers': model } };
`;

/** A tool, made with the zod of the package. */
const CHARGE = `import { createRequire } from 'node:module';
const { z } = createRequire(import.meta.resolve('savestate'))('zod');
const charge = { name: 'charge', description: 'Charges.', input: z.object({}), run: () => 'charged' };
`;

describe.concurrent('workflow.yaml at the command line', () => {
  test('[settings.6] run, log, continue and repl use the storage that it names; workflow check accepts it', async () => {
    const folder = createProject(REQUIREMENT);
    expect(await ok(['workflow', 'check', 'workflow.yaml'], { folder })).toBe('workflow.yaml is well.\n');
    await ok(['run', 'Plan a day', '-s', 'trip', '-n', '1'], { folder });
    expect([existsSync(join(folder, 'checkpoints')), existsSync(join(folder, '.savestate'))]).toEqual([true, false]);
    expect((await json('log', [], { folder })).length).toBeGreaterThan(1);
    expect(await json('continue', ['-n', '1'], { folder })).toMatchObject({ sessionId: 'trip' });
    expect(await ok(['repl', '--eval', 'where'], { folder })).toContain('trip');
  });

  test('[settings.1] a block without storage_type means files, as in the library; without the block nothing is said', async () => {
    const folder = createProject('workflow: { checkpointing: { cleanup_after_days: 30 } }\n');
    await ok(['run', 'Plan a day', '-s', 'trip', '-n', '1'], { folder });
    expect([existsSync(join(folder, 'checkpoints')), existsSync(join(folder, '.savestate'))]).toEqual([true, false]);
    expect((await json('config', [], { folder })).storage).toMatch(/^file:.*checkpoints$/);
    const env = { SAVESTATE_WORKFLOW_CHECKPOINTING_STORAGE_TYPE: 'sqlite' };
    expect((await json('config', [], { folder, env })).storage).toMatch(/^sqlite:.*checkpoints.checkpoints\.db$/);
    writeFileSync(join(folder, 'savestate.yaml'), 'team: team.yaml\nstorage: sqlite:a.db\n');
    expect((await json('config', [], { folder })).storage).toMatch(/^sqlite:.*a\.db$/);
    const plain = createProject('workflow: { max_rounds: 2 }\n');
    expect((await json('config', [], { folder: plain })).storage).toMatch(/^sqlite:.*\.savestate.checkpoints\.db$/);
  });

  test('[settings.6] options say whose data it is where workflow.yaml names PostgreSQL', async () => {
    const folder = createProject(
      'workflow: { checkpointing: { storage_type: postgres, storage_url: "postgres://db/app" } }\n',
    );
    const { storage } = await json('config', ['--tenant', 'acme', '--schema', 'agents'], { folder });
    expect(storage).toBe('postgres://db/app?tenant=acme&schema=agents');
  });

  test('[settings.6] two files that name different storages are refused; an option or variable decides', async () => {
    const folder = createProject(REQUIREMENT, 'team: team.yaml\nstorage: sqlite:a.db\n');
    const { code, stderr } = await run(['run', 'Hello', '-n', '1'], { folder });
    expect([code, stderr]).toEqual([2, expect.stringContaining('Take the storage out of one of them')]);
    expect((await run(['run', 'Hello', '-n', '1', '--storage', 'sqlite:b.db'], { folder })).code).toBe(0);
    rmSync(join(folder, 'workflow.yaml'));
    const env = { SAVESTATE_WORKFLOW_CHECKPOINTING_ENABLED: 'false' };
    expect((await run(['run', 'Hello', '-n', '1'], { folder, env })).stderr).toContain('nothing is saved');
  });

  test('[settings.2] enabled: false writes nothing at all, and what was saved before is not gone on with', async () => {
    const folder = createProject(REQUIREMENT.replace('enabled: true', 'enabled: false'));
    const before = readdirSync(folder);
    const { code, stderr, stdout } = await run(['run', 'Plan a day', '-n', '1'], { folder });
    expect([code, stderr]).toEqual([0, expect.stringContaining('Checkpointing is off')]);
    expect(stdout).toContain('Nothing was kept');
    const packing = await run(['run', 'packing.yaml', '--input', '{"days":2}'], { folder });
    expect([packing.code, packing.stderr]).toEqual([3, expect.stringContaining('Nothing was kept')]);
    for (const told of [stdout, stderr, packing.stdout, packing.stderr])
      expect(told).not.toMatch(/chk_|To continue|For more|savestate continue/);
    const { stdout: json } = await run(['run', 'Plan a day', '-n', '1', '--json'], { folder });
    expect(JSON.parse(json)).toMatchObject({ checkpointId: null, detail: expect.stringContaining('Nothing was kept') });
    const repl = await run(['repl', '--eval', 'Plan a day; Slower, please'], { folder });
    expect([repl.code, repl.stdout]).toEqual([0, expect.stringContaining('Ended: ')]);
    expect(repl.stdout).toContain('Nothing is stored: it is gone when the REPL ends.');
    expect(repl.stdout).not.toMatch(/To continue|For more/);
    expect((await run(['continue'], { folder })).stderr).toContain('Set enabled: true first');
    expect((await run(['resume', '@'], { folder })).code).toBe(2);
    expect(readdirSync(folder)).toEqual(before);
  });

  test('[settings.5] a run that is refused makes no storage, and one in memory says that nothing was kept', async () => {
    const folder = createProject(REQUIREMENT.replace('file ', 'sqlite ').replace('./checkpoints', 'c/d.db'));
    const before = readdirSync(folder);
    const refused = [
      ['run', 'Hello', '--on-difference', 'no'],
      ['run', 'Hello', '-n', '0'],
      ['run', 'Hello', '--session', 'u'.repeat(600)],
      ['run', 'packing.yaml', '--input', '{'],
      ['run', 'packing.yaml', '--session', 's', '--answer', 'approve=yes'],
    ];
    for (const words of refused) {
      const { code } = await run(words, { folder });
      expect([words, code === 0, readdirSync(folder)]).toEqual([words, false, before]);
    }
    const { stdout, stderr } = await run(['run', 'Hello', '-n', '1', '--storage', 'memory:'], { folder });
    expect([stdout, stderr]).toEqual([
      expect.stringContaining('Nothing was kept'),
      expect.not.stringContaining('chk_'),
    ]);
  });

  test('[settings.5] cleanup_after_days prunes when a run begins', async () => {
    const folder = createProject(REQUIREMENT.replace('file ', 'sqlite ').replace('./checkpoints', 'c.db'));
    const old = Date.now() - 40 * DAY_MS;
    let tick = 0;
    const manager = new CheckpointManager({
      storage: new SqliteCheckpointStorage({ path: join(folder, 'c.db') }),
      now: () => old + tick++,
    });
    const session = await manager.session('old');
    for (let n = 0; n < 3; n++) await session.save({ n });
    await (await manager.session('asked')).save({ n: 0 }, { status: 'waiting_for_input' });
    await manager.close();
    const { stderr } = await run(['run', 'Hello', '-s', 'new', '-n', '1'], { folder });
    expect(stderr).toContain('3 older than 30 days deleted (cleanup_after_days). Sessions ended: old.');
    expect(stderr).toContain('kept, because they wait for somebody: asked. To end one: savestate forget');
  });

  test('[settings.5] cleanup_after_days does not end the session that a command is about', async () => {
    const folder = createProject(REQUIREMENT.replace('file ', 'sqlite ').replace('./checkpoints', 'c.db'));
    const storage = new SqliteCheckpointStorage({ path: join(folder, 'c.db') });
    const manager = new CheckpointManager({ storage, now: () => Date.now() - 40 * DAY_MS });
    for (const id of ['mine', 'other']) await (await manager.session(id)).save({ notes: [] });
    await manager.close();
    const { stderr } = await run(['run', 'Hello', '-s', 'mine', '-n', '1'], { folder });
    expect(stderr).toContain('1 older than 30 days deleted (cleanup_after_days). Sessions ended: other.');
    expect(await json('log', ['-s', 'mine'], { folder })).toHaveLength(1);
  });

  test('[run.5] auto_resume_on_failure resumes a chat that fails, as often as the limit says', async () => {
    const resuming = REQUIREMENT.replace(
      'auto_resume_on_failure: false',
      'auto_resume_on_failure: true\n    auto_resume_limit: 2\n    auto_resume_backoff_seconds: 0.01',
    );
    const folder = createProject(resuming);
    writeFileSync(join(folder, 'travellers.mjs'), FLAKY);
    const attempt = async (failures: number) => {
      writeFileSync(join(folder, 'failures'), String(failures));
      return run(['run', 'Plan a day', '-n', '1'], { folder });
    };
    const twice = await attempt(2);
    expect([twice.code, twice.stdout]).toEqual([0, expect.stringContaining('Step 1: walk.')]);
    expect(twice.stderr).toContain('attempt 2 failed: 503; the next one is in 20 ms');
    expect((await attempt(3)).code).not.toBe(0);
    writeFileSync(join(folder, 'workflow.yaml'), REQUIREMENT);
    expect((await attempt(1)).code).not.toBe(0);
  });

  test(
    '[settings.7] max_rounds, timeout_seconds and agents.*.runtime hold for a chat; what it cannot keep is refused',
    LATER,
    async () => {
      const folder = createProject(
        'workflow: { max_rounds: 2, human_in_the_loop: { require_approval_for: [charge] } }\nagents: { critic: { runtime: { checkpoint: false } } }\n',
      );
      const { stdout } = await run(['run', 'Plan a day', '--json', '-s', 'two'], { folder });
      expect(JSON.parse(stdout)).toMatchObject({ newMessages: 3, reason: 'max_rounds' });
      const state = JSON.parse(await ok(['show', '@:agents.critic.runtime', '--json'], { folder }));
      expect(JSON.stringify(state)).toContain('"checkpoint":false');
      for (const stray of ['workflow: { max_stalls: 1 }', 'fleet: { callbacks: { streaming: false } }']) {
        writeFileSync(join(folder, 'workflow.yaml'), stray);
        const { code, stderr } = await run(['run', 'Plan a day'], { folder });
        expect([code, stderr]).toEqual([2, expect.stringMatching(/which a group chat does not have\. Take it out/)]);
      }
      writeFileSync(join(folder, 'workflow.yaml'), 'agents: { critc: {} }\n');
      expect((await run(['run', 'Hello'], { folder })).stderr).toContain('Did you mean "critic"?');
      writeFileSync(join(folder, 'workflow.yaml'), 'workflow: { timeout_seconds: 0.5005 }\n');
      const slow = await run(['run', 'Hello'], { folder, env: { DELAY_MS: '60000' } });
      expect([slow.code, slow.stderr]).toEqual([
        130,
        expect.stringContaining('Stopped after 0.5005 s (timeout_seconds)'),
      ]);
    },
  );

  test('[settings.7] a chat whose agents would act without the approvals of the file is refused', async () => {
    const folder = createProject('workflow: { human_in_the_loop: { require_approval_for: [charge] } }\n');
    const team = readFileSync(join(folder, 'team.yaml'), 'utf8');
    writeFileSync(join(folder, 'team.yaml'), team.replace('    model: off', '    tools: [charge]\n    model: off'));
    const code = readFileSync(join(folder, 'travellers.mjs'), 'utf8').replace(
      'registry = {',
      'registry = { tools: [charge],',
    );
    writeFileSync(join(folder, 'travellers.mjs'), `${CHARGE}${code}`);
    const before = readdirSync(folder);
    const refused = await run(['run', 'Plan a day'], { folder });
    expect([refused.code, refused.stderr]).toEqual([
      2,
      expect.stringContaining('nobody before "planner" calls charge'),
    ]);
    expect(readdirSync(folder)).toEqual(before);
    const trusted = 'workflow: { human_in_the_loop: { require_approval_for: [mail], trusted_operations: [charge] } }\n';
    for (const settings of [trusted, 'workflow: { human_in_the_loop: { enabled: false } }\n']) {
      writeFileSync(join(folder, 'workflow.yaml'), settings);
      await ok(['run', 'Plan a day', '-n', '1'], { folder });
    }
  });

  test('[cli.25] what a fleet asks to be allowed is shown with its input, by run, continue, show and the REPL', async () => {
    const folder = createProject(
      'workflow: { human_in_the_loop: { require_approval_for: [charge] } }\n',
      'team: fleet.mjs\n',
    );
    const fleet = readFileSync(join(folder, 'fleet.mjs'), 'utf8')
      .replace('systemMessage, model }', 'systemMessage, model, tools: [charge] }')
      .replace('planReview: true', 'planReview: false')
      .replace(
        "return 'We walk",
        "return said.includes('charged') ? 'Done.' : { toolCalls: [{ name: 'charge', input: { amount: 999 } }] };\n  if (false) $&",
      );
    writeFileSync(
      join(folder, 'fleet.mjs'),
      `${CHARGE.replace('z.object({})', 'z.object({ amount: z.number() })')}${fleet}`,
    );
    const asked = 'planner: May planner call charge (charge)?\n{"amount":999}\nAnswer with: ';
    expect(await json('run', ['A task', '-s', 'f'], { folder, code: 3 })).toMatchObject({
      question: { id: 'round-1-1', input: { amount: 999 } },
      detail: expect.stringContaining(asked),
    });
    expect((await run(['continue', '-s', 'f'], { folder })).stdout).toContain(asked);
    expect(await ok(['show', '-s', 'f'], { folder })).toMatch(
      /asks +May planner call charge \(charge\)\?\nwith +\{"amount":999\}\n/,
    );
    expect((await run(['repl', '--eval', 'where', '-s', 'f'], { folder })).stderr).toContain(asked);
  });

  test('[settings.7] limits, plan review and approvals hold for a fleet', async () => {
    const folder = createProject(
      'workflow: { max_rounds: 1, human_in_the_loop: { require_approval_for: [mail], trusted_operations: [] } }\nfleet: { plan_review: { require_human_approval: true } }\n',
      'team: fleet.mjs\n',
    );
    expect(await json('run', ['A task', '-s', 'f'], { folder, code: 3 })).toMatchObject({ status: 'waiting' });
    const settings = await ok(['show', '@:fleet.settings', '--json'], { folder });
    expect(settings).toContain('"mail"');
    expect(settings).toMatch(/"maxRoundCount": ?1\b/);
  });

  test('[settings.7] a fleet tells its progress ledgers, unless log_progress_ledger is off', LATER, async () => {
    const folder = createProject('', 'team: fleet.mjs\n');
    for (const [isOn, session] of [
      [true, 'on'],
      [false, 'off'],
    ] as const) {
      writeFileSync(join(folder, 'workflow.yaml'), `fleet: { callbacks: { log_progress_ledger: ${isOn} } }\n`);
      await run(['run', 'A task', '-s', session], { folder });
      const { stderr } = await run(['continue', '-s', session, '--answer', 'plan-1=approve'], { folder });
      expect([session, stderr.includes('ledger: next planner\n')]).toEqual([session, isOn]);
      const repl = await run(['repl', '--eval', `/new repl-${isOn}; Plan a day; approve`], { folder });
      expect([repl.code, repl.stderr.includes('ledger: next planner\n')]).toEqual([0, isOn]);
    }
  });

  test('[settings.6] savestate.yaml names another file of settings, or none; problems have line and column', async () => {
    const folder = createProject('spec: { of: somebody else }\n');
    const { code, stderr } = await run(['run', 'Hello', '-n', '1'], { folder });
    expect([code, stderr]).toEqual([
      2,
      expect.stringMatching(/1:1 must be a mapping with some of these keys[\s\S]*settings: false/),
    ]);
    writeFileSync(join(folder, 'savestate.yaml'), 'team: team.yaml\nsettings: false\n');
    expect((await run(['run', 'Hello', '-n', '1'], { folder })).code).toBe(0);
    mkdirSync(join(folder, 'config'));
    writeFileSync(join(folder, 'config', 'workflow.yaml'), REQUIREMENT);
    writeFileSync(join(folder, 'savestate.yaml'), 'team: team.yaml\nsettings: config/workflow.yaml\n');
    await ok(['run', 'Hello', '-n', '1'], { folder });
    expect(existsSync(join(folder, 'config', 'checkpoints'))).toBe(true);
    writeFileSync(join(folder, 'savestate.yaml'), 'team: team.yaml\nstorge: x\n');
    const typo = await run(['log'], { folder });
    expect([typo.code, typo.stderr]).toEqual([
      2,
      expect.stringMatching(/2:1 storge: unknown key "storge"\. Did you mean "storage"\?/),
    ]);
  });

  test('[settings.3] variables name storage, team, memory and user', async () => {
    const folder = createProject('', 'session: x\n');
    const env = {
      SAVESTATE_STORAGE: 'sqlite:v.db',
      SAVESTATE_TEAM: 'team.yaml',
      SAVESTATE_MEMORY: 'remembered.db',
      SAVESTATE_USER: 'bo',
    };
    expect((await run(['run', 'I live in Paris.', '-n', '1', '-s', 'x'], { folder, env })).code).toBe(0);
    expect([existsSync(join(folder, 'v.db')), existsSync(join(folder, 'remembered.db'))]).toEqual([true, true]);
    expect(await ok(['memory', 'list', '--user', 'bo'], { folder, env })).toContain('Paris');
    expect(readFileSync(join(folder, 'workflow.yaml'), 'utf8')).toBe('');
  });

  test('[cli.14] prune keeps what types ask for, as the library does; savestate.yaml can say otherwise', async () => {
    const folder = createProject('', 'storage: sqlite:c.db\n');
    const manager = new CheckpointManager({ storage: new SqliteCheckpointStorage({ path: join(folder, 'c.db') }) });
    const agent = { agentId: 'a', n: 0 };
    for (const type of ['recovery', 'pre_operation', 'manual', 'manual', 'routine', 'routine', 'routine']) {
      agent.n++;
      await manager.save(agent, { type });
    }
    await manager.close();
    const kept = async () => {
      const { verdicts } = await json('prune', ['--keep-last', '1', '--dry-run'], { folder });
      return verdicts.filter(({ keep }) => keep).length;
    };
    expect(await kept()).toBe(6);
    writeFileSync(
      join(folder, 'savestate.yaml'),
      'storage: sqlite:c.db\nretention: { types: { routine: { keepLast: 1 }, recovery: { maxAgeMs: 0 } } }\n',
    );
    expect(await kept()).toBe(3);
  });
});
