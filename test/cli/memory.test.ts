import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { LATER } from '../support/later.ts';
import { json, ok, run } from './support/cli.ts';
import { copiesOf, newFolder } from './support/folder.ts';
import type { Output } from './support/output-schemas.ts';
import { Screen } from './support/pty.ts';
import { createTeamFolder } from './support/team.ts';

const FACT = 'I live in Paris.';
const ANN = ['--user', 'ann'];

type Records = Extract<Output<'memory'>, readonly unknown[]>;

/** A folder with a conversation that taught something. */
const folderWithMemory = copiesOf(async () => {
  const folder = createTeamFolder('team: team.yaml\nmemory: mem.db\n');
  await ok(['run', '-s', 'trip', '-n', '1', ...ANN, `${FACT} I prefer short walks.`], { folder });
  return folder;
});

async function list(folder: string, ...args: string[]): Promise<Records> {
  return (await json('memory', ['list', ...ANN, ...args], { folder })) as Records;
}

describe.concurrent('memory', () => {
  test('[cli.28] run fills the memory that savestate.yaml names; list, search and why look at it, from where the branches are', async () => {
    const folder = await folderWithMemory();
    expect((await list(folder)).map(({ kind, memory }) => [kind, memory])).toEqual([
      ['episode', `${FACT} I prefer short walks.`],
      ['fact', FACT],
      ['preference', 'I prefer short walks.'],
    ]);
    expect((await list(folder, '--kind', 'fact', '-n', '5')).map(({ memory }) => memory)).toEqual([FACT]);
    const [found] = (await json('memory', ['search', 'Where', 'does she live?', ...ANN], { folder })) as Records;
    expect(found).toMatchObject({ memory: FACT, score: expect.any(Number) });
    const why = await json('memory', ['why', found?.id ?? ''], { folder });
    expect(why).toMatchObject({
      memory: { memory: FACT },
      sources: [{ operation: 'ADD', sessionId: 'trip', status: 'present', isVisible: true }],
    });
    expect(await ok(['memory', 'why', found?.id ?? ''], { folder })).toContain(`"${FACT} I prefer short walks."`);
    await ok(['rewind', '#1'], { folder });
    expect(await list(folder)).toEqual([]); // what was abandoned is not known
    expect((await list(folder, '--as-of', 'main')).length).toBe(3);
    await ok(['switch', 'main'], { folder });
    expect((await ok(['memory', 'list', ...ANN], { folder })).split('\n')[1]).toMatch(
      /^mem_\w+\tfact\tann\t.*\tI live/,
    );
  });

  test('[cli.28] forget brings back nothing that a rewind had hidden', async () => {
    const folder = await folderWithMemory();
    await ok(['rewind', '#1'], { folder });
    await ok(['forget', '--whole-session', 'trip', '--yes'], { folder });
    expect(await ok(['sessions'], { folder })).not.toContain('trip');
    expect(await list(folder)).toEqual([]);
  });

  test('[cli.28] whoever goes on with a session, it is its user whose memory learns and is asked', async () => {
    const folder = await folderWithMemory();
    const env = { SAVESTATE_AUTHOR: 'bo' };
    await ok(['run', '-s', 'trip', '-n', '1', 'My favourite colour is green.'], { folder, env });
    await ok(['continue', '-s', 'trip', '-n', '1'], { folder, env });
    await ok(['resume', '@', '-s', 'trip', '-n', '1', '--prompt', 'I prefer tea.'], { folder, env });
    expect((await list(folder)).map(({ memory }) => memory)).toEqual(
      expect.arrayContaining(['My favourite colour is green.', 'I prefer tea.']),
    );
    expect(await json('memory', ['list', '--user', 'bo'], { folder })).toEqual([]);
    await ok(['run', '-s', 'new', '-n', '1', 'I live in Rome.'], { folder, env });
    expect(await json('memory', ['list', '--user', 'bo'], { folder })).not.toEqual([]);
  });

  test('[cli.28] forget shows what it would do and asks; it removes the words and names the checkpoints that hold them', async () => {
    const folder = await folderWithMemory();
    const [turn] = await list(folder, '--kind', 'episode');
    const refused = await run(['memory', 'forget', turn?.id ?? ''], { folder });
    expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining('Say --yes')]);
    expect(await json('memory', ['forget', ...ANN, '--dry-run'], { folder })).toMatchObject({ isDryRun: true });
    expect(await list(folder)).toHaveLength(3);
    const screen = new Screen(['memory', 'forget', turn?.id ?? ''], { folder });
    await screen.shows('[y/N]');
    screen.enter('y');
    expect(await screen.ended).toBe(0);
    expect(screen.text).toContain('3 forgotten.');
    expect(screen.text).toMatch(/may still hold the words: chk_/);
    expect(readFileSync(join(folder, 'mem.db')).includes('Paris')).toBe(false);
    expect(await list(folder)).toEqual([]);
    for (const target of [[turn?.id ?? ''], ANN, ['mem_nothing']])
      expect([target, (await run(['memory', 'forget', ...target, '--yes'], { folder })).code]).toEqual([target, 13]);
  });

  test('[cli.28] who forgets a fact is told of the turn that lost its words', async () => {
    const folder = await folderWithMemory();
    const [turn] = await list(folder, '--kind', 'episode');
    const [fact] = await list(folder, '--kind', 'fact');
    const { stderr } = await run(['memory', 'forget', fact?.id ?? '', '--yes'], { folder });
    expect(stderr).toContain(`To forget the rest: savestate memory forget ${turn?.id}`);
    expect(JSON.stringify(await list(folder))).not.toContain(fact?.memory);
  });

  test('[cli.28] all of a user is forgotten at once, and nothing of another', async () => {
    const folder = await folderWithMemory();
    await ok(['run', '-s', 'other', '-n', '1', '--user', 'bo', 'I live in Rome.'], { folder });
    const gone = await json('memory', ['forget', ...ANN, '--yes', '--reason', 'asked to'], { folder });
    expect(gone).toMatchObject({ isDryRun: false, sessions: ['trip'] });
    expect((await json('memory', ['list', '--user', 'bo'], { folder })) as Records).toHaveLength(2);
  });

  test('[cli.15] forget --user takes memories along, and names what others saved after the user', async () => {
    const folder = await folderWithMemory();
    await ok(['run', '-s', 'other', '-n', '1', '--user', 'bo', 'I live in Rome.'], { folder });
    await ok(['continue', '-s', 'trip', '-n', '1', '--user', 'bo'], { folder });
    const plan = await run(['forget', ...ANN, '--dry-run'], { folder });
    expect(plan.stdout).toMatch(/Would delete \d+ checkpoints of user "ann" in 1 session and 3 memories; nothing/);
    const gone = (await json('forget', [...ANN, '--yes'], { folder })) as Output<'forget'>;
    expect(gone).toMatchObject({ isDryRun: false, memories: 3, sessions: ['trip'] });
    expect(gone.left).toMatchObject([{ sessionId: 'trip', checkpoints: expect.arrayContaining([expect.any(String)]) }]);
    expect(plan.stderr).toContain('forget --whole-session trip');
    expect(await list(folder)).toEqual([]);
    expect((await json('memory', ['list', '--user', 'bo'], { folder })) as Records).not.toEqual([]);
    expect((await run(['forget', ...ANN, '--yes'], { folder })).code).toBe(13);
    await ok(['forget', '--user', 'bo', '--yes', '--memory', 'mem.db'], { folder });
    expect((await run(['forget', '--user', 'bo', '--yes', '--memory', 'nowhere.db'], { folder })).code).toBe(10);
  });

  test(
    '[cli.28] a missing memory exits with 10 and is not made; damage with 4; wrong input with 2',
    LATER,
    async () => {
      const folder = newFolder();
      expect((await run(['memory', 'list', ...ANN], { folder })).code).toBe(10);
      expect(existsSync(join(folder, 'memories'))).toBe(false);
      writeFileSync(join(folder, 'notes.db'), 'These are my notes, and no database at all.\n'.repeat(100));
      const damaged = await run(['memory', 'list', '--memory', 'notes.db', ...ANN], { folder });
      expect(damaged.code).toBe(4);
      expect(damaged.stderr).not.toMatch(/\n {4}at /);
      const known = await folderWithMemory();
      const asRun = { USER: 'root', SAVESTATE_USER: 'ann' }; // "run" learns about this one, too
      expect((await run(['memory', 'list'], { folder: known, env: asRun })).stderr).toContain('the memory of "ann"');
      const own = await run(['memory', 'list'], { folder: known, env: { SAVESTATE_AUTHOR: 'ann' } });
      expect([own.code, own.stderr]).toEqual([0, expect.stringContaining('This is the memory of "ann"')]);
      for (const args of [['forget'], ['learn'], ['search', ...ANN], ['list', ...ANN, '--kind', 'rumour'], ['why']])
        expect([args, (await run(['memory', ...args], { folder: known })).code]).toEqual([args, 2]);
      for (const args of [
        ['why', 'mem_nothing'],
        ['search', 'zebra', '--user', 'nobody'],
      ])
        expect([args, (await run(['memory', ...args], { folder: known })).code]).toEqual([args, 13]);
    },
  );
});
