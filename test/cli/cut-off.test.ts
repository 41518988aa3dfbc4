import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { CheckpointManager } from '../../src/manager/checkpoint-manager.ts';
import { parseChatState } from '../../src/runtime/chat/chat-state.ts';
import { SqliteCheckpointStorage } from '../../src/storage/sqlite/sqlite-storage.ts';
import { LATER } from '../support/later.ts';
import { json, ok, run } from './support/cli.ts';
import { createTeamFolder, TEAM_WITH_BOSS } from './support/team.ts';

const RESUMING = `workflow:
  checkpointing:
    storage_type: sqlite
    storage_path: .savestate/checkpoints.db
    auto_resume_on_failure: true
    auto_resume_limit: 1
`;
const TRIP = ['run', 'Plan a day', '-s', 'trip', '-n', '4'];
const OTHER = ['run', 'Another day', '-s', 'other', '-n', '1'];
const NAMED = 'Session trip was interrupted. Continue it with: savestate continue --session trip\n';

/** A folder in which a run was killed in the middle of a call of its model. */
async function cutOff(config = 'team: team.yaml\n', env: Record<string, string> = { CRASH_AT_REPLY: '3' }) {
  const folder = createTeamFolder(config);
  expect((await run(TRIP, { folder, env })).code).toBeNull();
  return folder;
}

function resumeByItself(folder: string): void {
  writeFileSync(join(folder, 'workflow.yaml'), RESUMING);
}

function openStorage(folder: string): SqliteCheckpointStorage {
  return new SqliteCheckpointStorage({ path: join(folder, '.savestate/checkpoints.db') });
}

/** Who spoke in the trip, and how it is. */
async function readTrip(folder: string) {
  const manager = new CheckpointManager({ storage: openStorage(folder) });
  const { head, state } = await manager.session('trip');
  await manager.close();
  const { messages } = parseChatState(state).chat;
  return { status: head?.status, sequence: head?.sequence, speakers: messages.map(({ name }) => name) };
}

/** A process of another machine died with the lease of the trip, which has lapsed. */
async function abandonTrip(folder: string): Promise<void> {
  const storage = openStorage(folder);
  const manager = new CheckpointManager({ storage, now: () => Date.now() - 60_000 });
  await (await manager.session('trip')).lease({ owner: 'elsewhere/1/dead', ttlMs: 1, renew: 'manual' });
  await storage.close();
}

describe.concurrent('sessions whose process was killed', () => {
  test('[settings.8] with auto_resume_on_failure the next run goes on with a chat first, and repeats nothing', async () => {
    const folder = await cutOff();
    resumeByItself(folder);
    const { code, stdout, stderr } = await run([...OTHER, '--json'], { folder });
    expect([code, JSON.parse(stdout)]).toMatchObject([0, { sessionId: 'other' }]);
    expect(stderr).toContain('Session trip was interrupted; continuing it.\n');
    const speakers = ['user', 'planner', 'critic', 'planner', 'critic'];
    expect(await readTrip(folder)).toMatchObject({ status: 'completed', speakers });
    expect((await run(OTHER, { folder })).stderr).not.toContain('trip');
  });

  test('[settings.8] without it the session is named with the command that goes on, and not touched', async () => {
    const folder = await cutOff();
    const before = await readTrip(folder);
    expect((await run(OTHER, { folder })).stderr).toContain(NAMED);
    expect(await readTrip(folder)).toEqual(before);
    const repl = await run(['repl', '--eval', 'where'], { folder });
    expect(repl.stderr).toContain('Session trip was interrupted. Continue it with: use trip, then run\n');
    expect((await run(TRIP, { folder })).stderr).not.toContain('interrupted');
  });

  test(
    '[settings.8] a run of a workflow that was killed is named by the next run and the REPL, until it is gone on with',
    LATER,
    async () => {
      const folder = createTeamFolder();
      const bag = ['run', 'packing.yaml', '-s', 'bag', '--input', '{"days":2}'];
      const killed = await run(bag, {
        folder,
        env: { DELAY_MS: '60000', STARTED: '1' },
        onOutput: (text, kill) => text.includes('looking') && kill('SIGKILL'),
      });
      expect(killed.code).toBeNull();
      const named =
        'Session bag, a run of a workflow, was interrupted. Continue it with: savestate continue --session bag\n';
      expect((await run(OTHER, { folder })).stderr).toContain(named);
      expect((await run(['repl', '--eval', 'where'], { folder })).stderr).toContain(named);
      expect((await run(['run', 'packing.yaml', '-s', 'box', '--input', '{"days":2}'], { folder })).stderr).toContain(
        'Session bag was interrupted. Continue it with: savestate continue --session bag\n',
      );
      const { code, stderr } = await run(['continue', '--session', 'bag'], { folder });
      expect([code, stderr]).toEqual([3, expect.not.stringContaining('interrupted')]);
      expect((await run(OTHER, { folder })).stderr).not.toContain('bag');
    },
  );

  test('[settings.8] with the setting the next run of the same workflow goes on with it, and other runs name it', async () => {
    const folder = createTeamFolder();
    const bag = (session: string) => ['run', 'packing.yaml', '-s', session, '--input', '{"days":2}'];
    const killed = await run(bag('bag'), {
      folder,
      env: { DELAY_MS: '60000', STARTED: '1' },
      onOutput: (text, kill) => text.includes('looking') && kill('SIGKILL'),
    });
    expect(killed.code).toBeNull();
    resumeByItself(folder);
    const named =
      'Session bag, a run of a workflow, was interrupted. Continue it with: savestate continue --session bag\n';
    expect((await run(OTHER, { folder })).stderr).toContain(named);
    const { code, stderr } = await run(bag('box'), { folder });
    expect([code, stderr]).toEqual([3, expect.stringContaining('Session bag was interrupted; continuing it.\n')]);
    expect(stderr).toContain(
      "Session bag: Waiting: Take a coat for rain? (approve, reject)\nAnswer with: savestate continue --session bag --answer 'agree=...'\n",
    );
    expect((await run(bag('third'), { folder })).stderr).not.toContain('bag');
    expect(await ok(['continue', '-s', 'bag', '--answer', 'agree=approve'], { folder })).toContain(
      '2 shirts and a coat',
    );
  });

  test('[settings.8] the REPL goes on with it too; what is said there is a note', async () => {
    const folder = await cutOff();
    resumeByItself(folder);
    const { code, stdout, stderr } = await run(['repl', '--eval', 'where'], { folder });
    expect([code, stdout.includes('Step 2')]).toEqual([0, false]);
    expect(stderr).toMatch(/continuing it\.\n[\s\S]*Step 2[\s\S]*Session trip: Ended/);
    expect(await readTrip(folder)).toMatchObject({ status: 'completed' });
  });

  test('[settings.8] killed again until the limit it is only named, and by hand it goes on', LATER, async () => {
    const folder = await cutOff();
    resumeByItself(folder);
    expect((await run(OTHER, { folder, env: { CRASH_AT_REPLY: '3' } })).code).toBeNull();
    const named = expect.stringMatching(/failed 1 time .*savestate continue --session trip\n/);
    for (let time = 0; time < 2; time++) expect(await run(OTHER, { folder })).toMatchObject({ code: 0, stderr: named });
    await ok(['continue', '-s', 'trip'], { folder });
    expect((await run(OTHER, { folder })).stderr).not.toContain('trip');
  });

  test('[settings.8] one that waits for a person, or is of another team, is not gone on with', async () => {
    const folder = createTeamFolder();
    resumeByItself(folder);
    const team = readFileSync(join(folder, 'team.yaml'), 'utf8');
    writeFileSync(join(folder, 'team.yaml'), TEAM_WITH_BOSS);
    expect((await run(TRIP, { folder })).code).toBe(3);
    await abandonTrip(folder);
    const asked = await run(OTHER, { folder });
    expect(asked.stderr).toContain(
      'Session trip was interrupted and waits for an answer. Continue it with: savestate continue --session trip\n',
    );
    writeFileSync(join(folder, 'team.yaml'), team);
    expect((await run(['run', 'Hello', '-n', '1'], { folder })).stderr).not.toContain('trip');
  });

  test(
    '[settings.7] settings that changed since are no difference: the saved ones hold, and code that changed is named',
    LATER,
    async () => {
      const folder = createTeamFolder();
      const settings = (rounds: number) => RESUMING.replace('workflow:', `workflow:\n  max_rounds: ${rounds}`);
      writeFileSync(join(folder, 'workflow.yaml'), settings(8));
      const trip = ['run', 'Plan a day', '-s', 'trip'];
      expect((await run(trip, { folder, env: { CRASH_AT_REPLY: '3' } })).code).toBeNull();
      writeFileSync(join(folder, 'workflow.yaml'), settings(2));
      expect((await run(OTHER, { folder })).stderr).toMatch(
        /Session trip was interrupted; continuing it[\s\S]*Session trip: Ended/,
      );
      expect((await readTrip(folder)).speakers).toHaveLength(9);
      writeFileSync(join(folder, 'workflow.yaml'), RESUMING);
      const more = await json('run', ['More', '-s', 'trip'], { folder });
      expect('messages' in more && more.messages.length <= 18).toBe(true);
      await ok(['continue', '-s', 'other'], { folder });

      expect((await run(['run', 'Plan', '-s', 'cut'], { folder, env: { CRASH_AT_REPLY: '3' } })).code).toBeNull();
      const team = readFileSync(join(folder, 'team.yaml'), 'utf8');
      writeFileSync(join(folder, 'team.yaml'), team.replace('You plan trips.', 'You plan long trips.'));
      const refused = await run(OTHER, { folder });
      const next = 'savestate continue --session cut --on-difference warn';
      expect(refused.stderr).toContain(`Try again: ${next}`);
      await ok(next.split(' ').slice(1), { folder });
      writeFileSync(join(folder, 'team.yaml'), `${team}max_rounds: 3\n`);
      expect((await run(['continue', '-s', 'trip'], { folder })).stderr).toContain(
        'The settings are not what the conversation was saved with: The setting "maxRounds" changed from 20 to 3.',
      );
    },
  );

  test('[settings.7] a fleet keeps the approvals and runtime flags it was saved with', async () => {
    const folder = createTeamFolder('team: fleet.mjs\n');
    const hitl =
      'workflow: { human_in_the_loop: { require_approval_for: [mail], trusted_operations: [] }, max_rounds: 4 }';
    writeFileSync(join(folder, 'workflow.yaml'), `${hitl}\nagents: { planner: { runtime: { stream: false } } }\n`);
    expect((await run(['run', 'Plan a day', '-s', 'trip'], { folder })).code).toBe(3);
    writeFileSync(join(folder, 'workflow.yaml'), 'workflow: { max_rounds: 2 }\n');
    await ok(['continue', '--answer', 'plan-1=approve'], { folder });
    const kept = await ok(['show', '@:fleet.settings', '--json'], { folder });
    expect(kept).toContain('"mail"');
    expect(kept).toMatch(/"maxRoundCount": ?4\b/);
  });

  test('[settings.8] a fleet is gone on with in the same way', LATER, async () => {
    const folder = createTeamFolder('team: fleet.mjs\n');
    const fleet = readFileSync(join(folder, 'fleet.mjs'), 'utf8')
      .replace('planReview: true', 'planReview: false')
      .replace(
        "if (system === 'You check plans.')",
        "if (system === 'You check plans.' && process.env.CRASH) process.kill(process.pid, 'SIGKILL');\n  $&",
      );
    writeFileSync(join(folder, 'fleet.mjs'), fleet);
    expect((await run(['run', 'Plan a day', '-s', 'trip'], { folder, env: { CRASH: '1' } })).code).toBeNull();
    resumeByItself(folder);
    const { code, stderr } = await run(['run', 'Another day', '-s', 'other'], { folder });
    expect([code, stderr]).toEqual([0, expect.stringContaining('Session trip was interrupted; continuing it.\n')]);
    expect(stderr).toContain('Session trip: Ended');
  });

  test(
    '[settings.8] a fleet that was killed after its answer waits for nobody: it is gone on with',
    LATER,
    async () => {
      const folder = createTeamFolder('team: fleet.mjs\n');
      const fleet = readFileSync(join(folder, 'fleet.mjs'), 'utf8').replace(
        'const speakers',
        "if (process.env.CRASH) process.kill(process.pid, 'SIGKILL');\n  $&",
      );
      writeFileSync(join(folder, 'fleet.mjs'), fleet);
      expect((await run(['run', 'Plan a day', '-s', 'trip'], { folder })).code).toBe(3);
      const killed = await run(['continue', '-s', 'trip', '--answer', 'plan-1=approve'], {
        folder,
        env: { CRASH: '1' },
      });
      expect(killed.code).toBeNull();
      expect((await run(['repl', '--eval', 'where'], { folder })).stderr).toContain(
        'Session trip was interrupted. Continue it with: use trip, then run\n',
      );
      resumeByItself(folder);
      const { stderr } = await run(['run', 'Another day', '-s', 'other'], { folder });
      expect(stderr).toMatch(/Session trip was interrupted; continuing it[\s\S]*Session trip: Ended/);
    },
  );
});
