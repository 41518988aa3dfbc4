import { join } from 'node:path';
import { DatabaseSync } from '@photostructure/sqlite';
import { describe, expect, test } from 'vitest';
import { CheckpointManager } from '../../src/manager/checkpoint-manager.ts';
import { SqliteCheckpointStorage } from '../../src/storage/sqlite/sqlite-storage.ts';
import { toGrowth } from '../../src/view/figures.ts';
import { formatFields } from '../../src/view/label.ts';
import { json, ok, run } from './support/cli.ts';
import { CHAT, DATABASE, ROUNDS, sharedChat } from './support/fixture.ts';
import { newFolder } from './support/folder.ts';
import { OUTPUT_SCHEMAS } from './support/output-schemas.ts';

const chat = sharedChat();

describe.concurrent('sessions', () => {
  test('[cli.5] lists the sessions, the last used first, with the head of the branch that it names', async () => {
    const { folder, ids, forkId } = await chat.copy();
    const sessions = await json('sessions', [], { folder });
    expect(sessions).toEqual([
      expect.objectContaining({
        id: CHAT,
        currentBranch: 'main',
        branches: ['main', 'what-if'],
        headId: ids[ROUNDS],
        sequence: ROUNDS,
      }),
      expect.objectContaining({ id: 'other', branches: ['main'], sequence: 1, userId: 'user_2' }),
    ]);
    expect(await json('sessions', ['-n', '1'], { folder })).toHaveLength(1);
    const plain = await ok(['sessions'], { folder });
    expect(plain.split('\n')[0]?.split('\t').slice(0, 4)).toEqual([CHAT, 'main', '2', `#${ROUNDS}`]);
    await ok(['switch', 'what-if'], { folder });
    expect((await json('sessions', ['-n', '1'], { folder }))[0]).toMatchObject({
      currentBranch: 'what-if',
      headId: forkId,
      sequence: 6,
      savedAt: expect.any(String),
    });
  });
});

test('[cli.6] of many changed paths the first are named, and how many more there are', () => {
  expect(formatFields(['$.a', '$.b', '$.c'])).toBe('$.a, $.b, $.c');
  expect(formatFields(['$.a', '$.b', '$.c', '$.d', '$.e'])).toBe('$.a, $.b, $.c, +2 more');
});

test('[cli.5] log --steps follows the history of the branch: after a rewind, too, nothing more and nothing less', async () => {
  const folder = newFolder();
  const manager = new CheckpointManager({ storage: new SqliteCheckpointStorage({ path: join(folder, 'r.db') }) });
  const session = await manager.session<string[]>('trip', { initial: [] });
  const ask = async (what: string): Promise<void> => {
    const note = await session.step('ask', () => `${what}!`, { input: what });
    await session.update((notes) => void notes.push(note));
  };
  for (const what of ['a', 'b', 'c']) await ask(what);
  await session.rewind('@~2');
  const steps = async (...args: string[]): Promise<string[]> =>
    JSON.parse(await ok(['log', '--steps', '--json', '--storage', 'r.db', ...args], { folder })).map(
      ({ result }: { result: string }) => result,
    );
  expect(await steps()).toEqual(['a!']);
  await ask('d');
  expect(await steps()).toEqual(['d!', 'a!']);
  expect(await steps('--branch', 'main')).toEqual(['c!', 'b!', 'a!']);
  expect(await ok(['log', '--steps', '-n', '1', '--storage', 'r.db'], { folder })).toMatch(/^#2\task/);
  expect((await run(['continue', '--storage', 'r.db'], { folder })).stderr).toContain('saved by a program of yours');
  expect((await run(['log', 'r.db', '--storage', 'r.db'], { folder })).stderr).toContain('Use --storage r.db');
  for (const args of [['log'], ['log', '--steps'], ['sessions'], ['grep', 'a']])
    expect(await run([...args, '-n', '0', '--storage', 'r.db'], { folder })).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('-n must be a whole number, 1 or more'),
    });
  expect((await run(['log', '--stroage', 'r.db'], { folder })).stderr).toContain('Did you mean "--storage"?');
  await manager.close();
});

describe('a session that only recorded steps', () => {
  test('[cli.5] is listed, and every command says what there is of it', async () => {
    const folder = newFolder();
    const storage = new SqliteCheckpointStorage({ path: join(folder, 'r.db') });
    const manager = new CheckpointManager({ storage });
    const session = await manager.session('report', { replayFrom: 'start' });
    await session.step('collect', () => ({ facts: 3 }));
    await session.step('write', () => 'a report');
    await manager.close();
    const at = ['--storage', 'r.db'];
    const [listed] = await json('sessions', at, { folder });
    expect(listed).toMatchObject({ id: 'report', branches: [], sequence: 0, steps: 2 });
    const [row = ''] = (await ok(['sessions', ...at], { folder })).split('\n');
    expect(row.replace(/\t[^\t]*:\d\d\t/, '\t')).toBe('report\tmain\t0\tnone\t2 steps, no checkpoint');
    const said = 'Session "report" has no checkpoint yet; it recorded 2 steps.';
    expect(await run(['log', ...at], { folder })).toMatchObject({ code: 0, stderr: expect.stringContaining(said) });
    for (const args of [['show'], ['diff'], ['continue'], ['show', '--session', 'report']])
      expect(await run([...args, ...at], { folder })).toMatchObject({
        code: 13,
        stderr: expect.stringContaining(said),
      });
    expect(await ok(['log', '--steps', ...at], { folder })).toMatch(
      /^#2\twrite\tdone\t[\d.]+ m?s\t"a report"\n#1\tcollect\tdone\t[\d.]+ m?s\t\{"facts":3\}\n$/,
    );
    expect(JSON.parse(await ok(['log', '--steps', '--json', '-n', '1', ...at], { folder }))).toMatchObject([
      { name: 'write', ordinal: 1, status: 'done', result: 'a report' },
    ]);
    expect(await run(['log', '--steps', '--graph', ...at], { folder })).toMatchObject({ code: 2 });
    expect(await run(['log', '--storage', 'nope.db'], { folder })).toMatchObject({
      code: 10,
      stderr: expect.stringContaining(`savestate init --storage sqlite:${join(folder, 'nope.db')}`),
    });
  });
});

describe.concurrent('log', () => {
  test('[cli.6] lists the history of a branch, the newest first, and a range of it', async () => {
    const { folder, ids } = await chat.get();
    const log = await json('log', [], { folder });
    expect(log.map(({ id }) => id)).toEqual(ids.slice(1).reverse());
    expect(log[0]).toMatchObject({ heads: ['main'], type: 'auto', status: 'FAILED', metadata: { round: 8 } });
    expect(log[4]).toMatchObject({ tags: ['v1'] });
    const range = await json('log', ['v1..@', '-n', '2'], { folder });
    expect(range.map(({ sequence }) => sequence)).toEqual([8, 7]);
    const branch = await json('log', ['--branch', 'what-if'], { folder });
    expect(branch.map(({ sequence }) => sequence)).toEqual([6, 5, 4, 3, 2, 1]);
    expect(await json('log', ['--all'], { folder })).toHaveLength(ROUNDS + 1);
  });

  test('[cli.6] filters by time, and by an expression about what was noted and what was saved', async () => {
    const { folder } = await chat.get();
    const numbers = async (...args: string[]) => (await json('log', args, { folder })).map(({ sequence }) => sequence);
    expect(await numbers('--since', '2026-01-31T14:00', '--until', '2026-01-31T15:00')).toEqual([7, 6]);
    expect(await numbers('--where', 'metadata.round % 3 == 0')).toEqual([6, 3]);
    expect(await numbers('--where', 'state.plan.length > 0 && status === "RUNNING"', '-n', '1')).toEqual([5]);
    expect(await numbers('--where', 'false')).toEqual([]);
  });

  test('[cli.6] draws branches as a graph, and prints one line or all about each', async () => {
    const { folder, ids, forkId } = await chat.get();
    const graph = (await ok(['log', '--graph', '-n', '6'], { folder })).split('\n');
    expect(graph.map((line) => line.slice(0, 3))).toEqual(['* #', '| *', '| *', '| *', '|/', '* #', '* #', '']);
    expect(graph[0]).toContain(`${forkId} (what-if) edited "try it warmer" $.tone`);
    expect((await ok(['log', '--oneline', '-n', '1'], { folder })).trim()).toBe(
      `#8 ${ids[8]} (main) message_appended FAILED assistant: Answer 8: it is on its way to you.`,
    );
    expect(await ok(['log', '--long', '-n', '1'], { folder })).toContain('metadata  { "round": 8 }');
  });

  test('[cli.6] a graph of the newest says what was pruned between them, and reads nothing older', async () => {
    const { folder, ids } = await chat.copy();
    const path = join(folder, DATABASE);
    const manager = new CheckpointManager({ storage: new SqliteCheckpointStorage({ path }) });
    for (const id of [ids[6], ids[3]]) await manager.delete(id ?? '');
    await manager.close();
    const database = new DatabaseSync(path);
    database.prepare("UPDATE checkpoint SET body='{}' WHERE id=?").run(ids[1] ?? '');
    database.close();
    const lines = (await ok(['log', '--graph', '-n', '5'], { folder })).split('\n').map((line) => line.slice(0, 12));
    expect(lines).toMatchObject(
      ['* #6', '| * #8', '| * #7', '| ┆ 1 pruned', '|/', '* #5', '* #4', '┆ 1 pruned', ''].map((start) =>
        expect.stringMatching(new RegExp(`^${start.replace(/[*|┆]/g, '[$&]')}`)),
      ),
    );
  });
});

describe.concurrent('revisions', () => {
  test('[cli.4] every form names the checkpoint it should', async () => {
    const { folder, ids, forkId } = await chat.get();
    const lines = [
      '@',
      '@~3',
      'main~2',
      'v1',
      'v1^',
      '#2',
      'what-if',
      'what-if#6',
      'what-if~1',
      '@{2026-01-31 12:30}',
      '@~2~1',
      ids[3] ?? '',
      (ids[3] ?? '').slice(4, 20),
    ];
    const wanted = [
      ids[8],
      ids[5],
      ids[6],
      ids[4],
      ids[3],
      ids[2],
      forkId,
      forkId,
      ids[5],
      ids[4],
      ids[5],
      ids[3],
      ids[3],
    ];
    const found = await Promise.all(
      lines.map(async (line) => (await json('show', [line, '--header'], { folder })).checkpoint.id),
    );
    expect(found).toEqual(wanted);
  });

  test('[cli.4] what fits nothing is 13, what fits several is 2 and names them', async () => {
    const { folder } = await chat.get();
    const ambiguous = await run(['show', 'chk_01kg'], { folder });
    expect(ambiguous.code).toBe(2);
    expect(ambiguous.stderr).toMatch(/fits more than one checkpoint: chk_\w{22}, /);
    for (const revision of ['nothing', '@~99', '#99', '@{1999-01-01}', 'chk_zzzz', 'v1~9'])
      expect(await run(['show', revision], { folder })).toMatchObject({ code: 13, stdout: '' });
    expect(await run(['show', '@{tomorrow-ish}'], { folder })).toMatchObject({ code: 2 });
    expect((await run(['log', 'main..what-if'], { folder })).stderr).toContain('is not an ancestor');
  });
});

describe.concurrent('show', () => {
  test('[cli.7] shows a checkpoint with its messages as a chat, or a value of it', async () => {
    const { folder, ids } = await chat.get();
    const text = await ok(['show', '#5'], { folder });
    expect(text).toContain('[4] user: I want a refund for order 1042, please.');
    expect(text).toContain(`parent    ${ids[4]}`);
    expect((await ok(['show', '@~3:messages[-1].content'], { folder })).trim()).toBe(
      'I want a refund for order 1042, please.',
    );
    expect(await json('show', ['v1:$.plan'], { folder })).toMatchObject({ path: '$.plan', value: ['greet', 'help'] });
    expect(await json('show', ['v1:/plan/0'], { folder })).toMatchObject({ value: 'greet' });
    const missing = await run(['show', '@:messages[99]'], { folder });
    expect(missing).toMatchObject({ code: 13 });
    expect(missing.stderr).toContain('$.messages is a list of 8');
    expect((await run(['show', '@:!!'], { folder })).code).toBe(2);
  });
});

describe.concurrent('diff', () => {
  test('[cli.8] shows messages as messages and texts word by word', async () => {
    const { folder } = await chat.get();
    const text = await ok(['diff', '#2', '#6'], { folder });
    expect(text).toContain('messages 2 the same\n+ [2] user: ');
    expect(text).toContain('\n+ [4] user: I want a refund for order 1042, please.\n');
    expect(text).toContain('~ dry and to the point, [-always-]{+mostly+}');
    expect(text).toContain('$.plan[0]\n  - greet');
  });

  test('[cli.8] goes through the state from top to bottom, whatever happened to a field', async () => {
    const folder = newFolder();
    const manager = new CheckpointManager({ storage: new SqliteCheckpointStorage({ path: join(folder, 'd.db') }) });
    const counts = Array.from({ length: 12 }, (_, at) => at);
    await manager.save({ alpha: 1, gone: 2, zone: { b: 1 }, counts }, { sessionId: 'd' });
    const now = counts.map((count) => (count === 2 || count === 10 ? `new ${count}` : count));
    await manager.save({ alpha: 3, zone: { a: 1 }, counts: now, beta: 4 }, { sessionId: 'd' });
    await manager.close();
    const text = await ok(['diff', '--storage', 'd.db', '-s', 'd'], { folder });
    const paths = text.split('\n').filter((line) => line.startsWith('$'));
    const expected = ['$.alpha', '$.beta', '$.counts[2]', '$.counts[10]', '$.gone', '$.zone.a', '$.zone.b'];
    expect([...new Set(paths)]).toEqual(expected);
  });

  test('[cli.8] compares with the head, two revisions or a range; counts; looks at one path; makes a patch', async () => {
    const { folder, ids } = await chat.get();
    const sides = async (...args: string[]) => {
      const { before, after } = await json('diff', args, { folder });
      return [before.id, after.id];
    };
    expect(await sides()).toEqual([ids.at(-2), ids.at(-1)]);
    expect(await sides('#6')).toEqual([ids[6], ids.at(-1)]); // as session.diff does
    const parent = await json('diff', ['#5', '#6'], { folder });
    expect(parent.counts.total).toEqual({ added: 1, removed: 2, modified: 0, moved: 0 });
    const branch = await json('diff', ['main..what-if', '--path', 'tone'], { folder });
    expect(branch).toMatchObject({ modified: [{ path: '$.tone', newValue: 'warm' }], added: [], removed: [] });
    expect(await ok(['diff', '#5', '#6', '--stat'], { folder })).toBe(
      '  messages  1 added\n  plan  2 removed\n1 added, 2 removed\n',
    );
    const patch = JSON.parse(await ok(['diff', '#5', '#6', '--patch'], { folder })) as unknown[];
    expect(patch).toContainEqual({ op: 'remove', path: '/plan/0' });
    expect(await run(['diff', '@', '@'], { folder })).toMatchObject({ code: 0, stdout: '' });
  });
});

describe.concurrent('blame', () => {
  test('[cli.9] tells which checkpoint last set each part of a value', async () => {
    const { folder, ids } = await chat.get();
    const messages = await json('blame', ['messages'], { folder });
    expect(messages.map(({ checkpoint }) => checkpoint.id)).toEqual(ids.slice(1));
    const [tone] = await json('blame', ['$.tone'], { folder });
    expect(tone).toMatchObject({ path: '$.tone', checkpoint: { id: ids[3] } });
    const [plan] = await json('blame', ['plan', '--whole'], { folder });
    expect(plan).toMatchObject({ value: [], checkpoint: { id: ids[6] } });
    const [edited] = await json('blame', ['tone', 'what-if'], { folder });
    expect(edited?.checkpoint).toMatchObject({ author: 'ann', reason: 'try it warmer' });
    expect((await run(['blame', 'nowhere'], { folder })).code).toBe(13);
    expect(await run(['blame'], { folder })).toMatchObject({
      code: 2,
      stderr: "error: missing required argument 'path'\nFor instance: savestate blame $.messages\n",
    });
  });
});

describe.concurrent('grep', () => {
  test('[cli.9] tells where each match came in, once', async () => {
    const { folder, ids } = await chat.get();
    expect(await json('grep', ['refund'], { folder })).toEqual([
      expect.objectContaining({ checkpointId: ids[5], path: '$.messages[4].content', sequence: 5 }),
    ]);
    const answers = await json('grep', ['-i', '^ANSWER \\d'], { folder });
    expect(answers.map(({ sequence }) => sequence)).toEqual([2, 4, 6, 8]);
    expect(await json('grep', ['parcel', 'v1..@'], { folder })).toHaveLength(1);
    expect(await json('grep', ['parcel', '--at', 'v1', '-n', '1'], { folder })).toHaveLength(1);
    expect(await json('grep', ['-F', 'nothing (of the kind'], { folder, code: 13 })).toEqual([]);
    expect((await run(['grep', '(broken'], { folder })).code).toBe(2);
  });

  test('[cli.9] no pattern takes long, in grep and redact', async () => {
    const folder = newFolder();
    const manager = new CheckpointManager({ storage: new SqliteCheckpointStorage({ path: join(folder, 'agent.db') }) });
    await (await manager.session('s')).save({ text: 'z'.repeat(5_000) });
    await manager.close();
    const at = { folder, env: { SAVESTATE_STORAGE: 'agent.db' }, own: true };
    expect(await json('grep', ['(z|z)*y$', '-s', 's'], { ...at, code: 13 })).toEqual([]);
    expect(await json('grep', ['(z|z)*$', '-s', 's'], at)).toHaveLength(1);
    expect(await json('redact', ['--pattern', '(z|z)*y$', '--dry-run', '-s', 's'], at)).toMatchObject({ places: 0 });
    expect(await run(['grep', '(?=z)z', '-s', 's'], at)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('has a lookaround, which cannot be matched in linear time. Write what'),
    });
  });
});

describe.concurrent('stats', () => {
  test('[cli.5] growth begins with the first checkpoint and ends with the last', () => {
    const saves = [0, 60_000, 90_000].map((timeMs) => ({ timeMs, bytes: 1 }));
    expect(toGrowth(saves).map(({ until, logicalBytes }) => [Date.parse(until), logicalBytes])).toEqual([
      [0, 1],
      [45_000, 1],
      [90_000, 3],
    ]);
    expect([toGrowth([]), toGrowth(saves.slice(1, 2))]).toMatchObject([[], [{ checkpoints: 1, logicalBytes: 1 }]]);
  });

  test('[cli.5] shows logical and stored bytes, what sharing saves, and growth as a chart', async () => {
    const { folder } = await chat.get();
    const stats = await json('stats', [], { folder });
    expect(stats).toMatchObject({ kind: 'sqlite', sessions: 2, checkpoints: ROUNDS + 2, tombstones: 0 });
    expect(stats.saved).toBeCloseTo(Math.max(0, 1 - stats.storedBytes / stats.logicalBytes), 10);
    expect(stats.growth.at(-1)).toMatchObject({ checkpoints: ROUNDS + 2, logicalBytes: stats.logicalBytes });
    expect(await ok(['stats'], { folder })).toMatch(
      /^storage +sqlite:.*\nholds +10 checkpoints of 2 sessions, .*\nlogical .*\nstored .*\ngrowth +[▁▂▃▄▅▆▇█]{10}\n.*UTC/,
    );
  });
});

describe.concurrent('follow', () => {
  test('[cli.5] shows what other processes save, until it is stopped', async () => {
    const { folder } = await chat.copy();
    const manager = new CheckpointManager({ storage: new SqliteCheckpointStorage({ path: `${folder}/${DATABASE}` }) });
    const session = await manager.session(CHAT);
    let saved: Promise<unknown> | undefined;
    const { code, stdout } = await run(['follow', '-n', '2', '--json'], {
      folder,
      onOutput: (text, kill) => {
        if (text.includes('following')) saved ??= session.save({ live: true }, { name: 'just now' });
        if (text.includes('just now')) kill('SIGINT');
      },
    });
    await saved;
    await manager.close();
    const lines = stdout
      .trim()
      .split('\n')
      .map((line) => OUTPUT_SCHEMAS.follow.parse(JSON.parse(line)));
    expect(lines.map(({ name, branch }) => name ?? branch)).toEqual(['main', 'what-if', 'just now']);
    expect(code).toBe(130);
  });
});
