import { appendFileSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { SavestateSessionStore } from '../../src/adapter/claude/index.ts';
import { SqliteCheckpointStorage } from '../../src/storage/sqlite/sqlite-storage.ts';
import { json, ok, run } from './support/cli.ts';
import { newFolder } from './support/folder.ts';

const said = (n: number) => ({
  type: n % 2 === 0 ? 'user' : 'assistant',
  uuid: `uuid-${n}`,
  message: { content: `word-${n} `.repeat(100) },
});
const toLines = (entries: readonly object[]) => entries.map((entry) => `${JSON.stringify(entry)}\n`).join('');

/** A folder as the SDK keeps it: two projects, a subagent, and a line that a killed process left cut. */
function localTranscripts(folder: string): string {
  const projects = join(folder, '.claude', 'projects');
  mkdirSync(join(projects, '-shop', 's1', 'subagents'), { recursive: true });
  mkdirSync(join(projects, '-desk'), { recursive: true });
  const title = { type: 'custom-title', customTitle: 'Orders' };
  writeFileSync(join(projects, '-shop', 's1.jsonl'), toLines([said(0), said(1), title, title]));
  writeFileSync(join(projects, '-shop', 's1', 'subagents', 'agent-a.jsonl'), toLines([said(2)]));
  writeFileSync(join(projects, '-shop', 's1', 'subagents', 'agent-a.meta.json'), '{"agentType":"explore"}');
  writeFileSync(join(projects, '-desk', 's2.jsonl'), `${toLines([said(3), { no: 'type' }])}{"type":"user","uu`);
  return projects;
}

test('local transcripts of Claude are imported, once, and are sessions like any other', async () => {
  const folder = newFolder();
  const projects = localTranscripts(folder);
  const first = await run(['import', 'claude', projects, '--storage', 'c.db', '--json'], { folder });
  expect(first.code).toBe(3);
  expect(JSON.parse(first.stdout)).toMatchObject({
    sessions: 2,
    subagents: 1,
    entries: 7,
    present: 0,
    skipped: [{ line: 2 }, { line: 3 }],
  });
  appendFileSync(join(projects, '-shop', 's1.jsonl'), toLines([said(4)]));
  const project = await json('import', ['claude', join(projects, '-shop'), '--storage', 'c.db'], { folder });
  expect(project).toMatchObject({ sessions: 1, subagents: 1, entries: 1, present: 6, skipped: [] });
  const whole = await run(['import', 'claude', join(folder, '.claude'), '--storage', 'c.db'], { folder });
  expect(whole.stdout).toBe('2 sessions, 1 subagent: 0 new entries, 8 there already.\n');
  expect(whole.stderr).toMatch(/Skipped .*s2\.jsonl:2: it is no entry: it has no type\./);

  const storage = new SqliteCheckpointStorage({ path: join(folder, 'c.db') });
  const store = new SavestateSessionStore(storage);
  const key = { projectKey: '-shop', sessionId: 's1' };
  expect(await store.load(key)).toHaveLength(5);
  expect(await store.load({ ...key, subpath: 'subagents/agent-a' })).toEqual([
    said(2),
    { type: 'agent_metadata', agentType: 'explore' },
  ]);
  expect(await store.listSessionSummaries('-shop')).toMatchObject([{ data: { customTitle: 'Orders' } }]);
  await storage.close();

  const session = ['-s', 'claude/-shop/s1', '--storage', 'c.db'];
  expect(await json('log', session, { folder })).toHaveLength(2);
  expect(await ok(['grep', 'word-4', ...session], { folder })).toContain('bodies[4].message.content');
  expect(await ok(['diff', '@~1', '@', ...session], { folder })).toContain('uuid-4');
  expect(await ok(['show', '@:items[0].type', ...session], { folder })).toContain('user');
  await ok(['rewind', '@~1', ...session], { folder });
  const again = new SqliteCheckpointStorage({ path: join(folder, 'c.db') });
  expect(await new SavestateSessionStore(again).load(key)).toHaveLength(4);
  await again.close();
});

test('what is said of a subagent may be damaged: it is named, and the rest comes in', async () => {
  const folder = newFolder();
  const projects = localTranscripts(folder);
  const about = join(projects, '-shop', 's1', 'subagents', 'agent-a.meta.json');
  for (const [text, reason] of [
    ['{"agentTy', /^it is no JSON/],
    ['[]', /^it is no entry/],
  ] as const) {
    writeFileSync(about, text);
    const { stdout } = await run(['import', 'claude', projects, '--storage', 'c.db', '--json'], { folder });
    const { sessions, skipped } = JSON.parse(stdout);
    expect(sessions).toBe(2);
    expect(skipped).toContainEqual({ file: about, reason: expect.stringMatching(reason) });
  }
});

test('links are not followed, and each is named', async () => {
  const folder = newFolder();
  const projects = localTranscripts(folder);
  const linked = [
    join(projects, '-shop', 'linked.jsonl'),
    join(projects, '-shop', 's1', 'subagents', 'agent-b.jsonl'),
    join(projects, 'away'),
    join(projects, '-shop', 'gone.jsonl'),
  ];
  symlinkSync(join(projects, '-desk', 's2.jsonl'), linked[0] ?? '');
  symlinkSync(join(projects, '-desk', 's2.jsonl'), linked[1] ?? '');
  symlinkSync(folder, linked[2] ?? '');
  symlinkSync(join(folder, 'nothing'), linked[3] ?? '');
  writeFileSync(join(projects, '-desk', 's2.jsonl'), toLines([said(3)]));
  const { code, stdout, stderr } = await run(['import', 'claude', projects, '--storage', 'c.db', '--json'], { folder });
  const { skipped, ...counts } = JSON.parse(stdout) as { skipped: { file: string; reason: string }[] };
  expect([code, counts]).toEqual([3, { sessions: 2, subagents: 1, entries: 7, present: 0 }]);
  expect(skipped.map(({ file }) => file).sort()).toEqual(linked.sort());
  expect(stderr).toContain(`Skipped ${linked[0]}: it is a link`);
});

test('what cannot be imported is said', async () => {
  const folder = newFolder();
  const cases: [args: string[], code: number, said: string][] = [
    [['import', 'claude', 'nowhere'], 13, 'There is no folder or file'],
    [['import', 'claude', '.'], 13, 'There are no transcripts (*.jsonl) in'],
    [['import', 'cloud', '.'], 2, 'Tools: claude, atif, otlp.'],
  ];
  for (const [args, code, text] of cases) {
    const outcome = await run([...args, '--storage', 'x.db'], { folder });
    expect([args, outcome.code]).toEqual([args, code]);
    expect(outcome.stderr).toContain(text);
  }
});
