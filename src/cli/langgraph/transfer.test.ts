import { randomUUID } from 'node:crypto';
import { copyFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { loadPostgresSaver, SQLITE_FILE } from '../../../test/support/official-savers.ts';
import { adminClient, postgresUrl } from '../../../test/support/postgres.ts';
import { temporaryFolder } from '../../../test/support/storages.ts';
import { SavestateSaver, type TransferReport } from '../../adapter/langgraph/index.ts';
import { SqliteCheckpointStorage } from '../../storage/sqlite/sqlite-storage.ts';
import { Context } from '../base/context.ts';
import { exitCodeOf } from '../base/exit-code.ts';
import { PROGRAM } from '../program.ts';
import { createTerminal, type Terminal } from '../terminal/terminal.ts';

/** Runs a command as the program does; returns its exit code, what it printed, and what it said beside that. */
async function run(
  args: readonly string[],
  options: { readonly signal?: AbortSignal; readonly onNote?: (text: string) => void } = {},
) {
  const { signal = new AbortController().signal } = options;
  const [printed, noted]: [string[], string[]] = [[], []];
  let nowMs = 0;
  const terminal: Terminal = {
    ...createTerminal({ ...process, env: {} } as NodeJS.Process, { color: false }),
    isScreen: false,
    isNoteScreen: false,
    now: () => (nowMs += 5_000),
    print: (text) => printed.push(text),
    printWhole: (text) => printed.push(text),
    note: (text) => {
      noted.push(text);
      options.onNote?.(text);
    },
  };
  const code = await PROGRAM.run(['langgraph', ...args], {
    version: '0',
    print: terminal.print,
    note: terminal.note,
    run: (command, input, globals) =>
      command.run(new Context({ program: PROGRAM, terminal, globals, env: {}, folder: process.cwd(), signal }), input),
  }).catch((error: unknown) => {
    noted.push(String(error));
    return exitCodeOf(error);
  });
  return { code, printed: printed.join(''), noted: noted.join('') };
}

function officialFile(): { readonly from: string; readonly to: string } {
  const folder = temporaryFolder();
  const from = join(folder, 'official.db');
  copyFileSync(SQLITE_FILE, from);
  return { from, to: join(folder, 'threads.db') };
}

test('[langgraph.23] imports a file, reports in plain words, and exits with 3 because something is named', async () => {
  const { from, to } = officialFile();
  const { code, printed, noted } = await run(['import', from, '--to', to]);
  expect(code).toBe(3);
  expect(printed).toMatch(/^Imported \d+ checkpoints and \d+ writes of 6 threads\.\n\n/);
  expect(printed).toContain('not stored:\n');
  expect(printed).toContain('faulty 1f1e');
  expect(noted).toBe('');
  expect(readFileSync(from).equals(readFileSync(SQLITE_FILE))).toBe(true);

  const storage = new SqliteCheckpointStorage({ path: to });
  const saver = new SavestateSaver(storage);
  const tuple = await saver.getTuple({ configurable: { thread_id: 'talk' } });
  expect(tuple?.checkpoint.channel_values.messages).toHaveLength(5);
  await storage.close();

  const again = await run(['import', from, '--to', to]);
  expect(again.printed).toMatch(
    /Imported 0 checkpoints and 0 writes of 6 threads\.\n\d+ checkpoints were there already; their losses are not listed again\./,
  );
});

test('[langgraph.23] some threads, all of them whole: exits with 0; the report as JSON', async () => {
  const { from, to } = officialFile();
  const { code, printed, noted } = await run(['import', from, '--to', to, '--threads', 'approval,nested', '--json']);
  expect(code).toBe(0);
  expect(noted).toBe('');
  const report = JSON.parse(printed) as TransferReport & { bytesAfter: number };
  expect(report).toMatchObject({ threads: 2, checkpoints: 6, present: 0, skipped: [], lossy: [] });
  expect(report.bytesAfter).toBeGreaterThan(0);
});

test('[langgraph.23] from PostgreSQL and into it', async () => {
  const schema = await loadPostgresSaver();
  const folder = temporaryFolder();
  const into = ['--to', join(folder, 'threads.db'), '--json'];
  const { code, printed } = await run(['import', postgresUrl(), '--schema', schema, ...into]);
  expect(code).toBe(3);
  expect(JSON.parse(printed)).toMatchObject({ threads: 6 });

  const { from } = officialFile();
  const tenant = randomUUID();
  const client = await adminClient();
  const there = await run(['import', from, '--to', postgresUrl(), '--tenant', tenant, '--json']);
  expect(JSON.parse(there.printed)).toMatchObject({ threads: 6 });
  const { rows } = await client.query('select count(*)::int as n from savestate.checkpoint where tenant = $1', [
    tenant,
  ]);
  expect(rows[0].n).toBe((JSON.parse(there.printed) as TransferReport).checkpoints);
});

test('[langgraph.23] what cannot be done is said, and nothing is made', async () => {
  const folder = temporaryFolder();
  const to = join(folder, 'threads.db');
  writeFileSync(join(folder, 'text.db'), 'no database at all'.repeat(500));
  const cases: [args: string[], code: number, said: RegExp][] = [
    [['import', join(folder, 'none.db'), '--to', to], 1, /cannot be opened/],
    [['import', join(folder, 'text.db'), '--to', to], 4, /not a SQLite database/],
    [['import', SQLITE_FILE, '--to', to, '--threads', 'nobody'], 13, /no thread "nobody"/],
    [['import', folder, '--to', to], 1, /it is a folder; name the file in it/],
    [['export', join(folder, 'none.db'), '--to', to], 10, /no storage/],
    [['import', SQLITE_FILE], 2, /--to/],
    [['import', '--to', to], 2, /where to import from/],
    [['import', 'a', 'b', '--to', to], 2, /too many arguments/],
    [['move', 'a', '--to', to], 2, /no action "move". It has: import, export/],
    [['import', 'a', '--to', to, '--colour'], 2, /colour/],
    [[], 2, /missing required argument 'action'/],
  ];
  for (const [args, code, said] of cases) {
    const outcome = await run(args);
    expect([args, outcome.code]).toEqual([args, code]);
    expect(outcome.noted).toMatch(said);
    expect(outcome.printed).toBe('');
  }
  const { from } = officialFile();
  expect(await run(['import', from, '--to', from])).toMatchObject({ printed: '' });
  expect(readFileSync(from).equals(readFileSync(SQLITE_FILE))).toBe(true);
  expect(existsSync(to) && readFileSync(to).includes('talk')).toBe(false);
});

test('[langgraph.23] exporting needs the official package, and says which', async () => {
  const { from, to } = officialFile();
  await run(['import', from, '--to', to]);
  const { code, noted } = await run(['export', to, '--to', `${to}-official.db`]);
  expect(code).toBe(15);
  expect(noted).toContain('npm install @langchain/langgraph-checkpoint-sqlite');
});

test('[langgraph.20] exports only to what can be a file of the official saver, and leaves anything else alone', async () => {
  const { from, to } = officialFile();
  await run(['import', from, '--to', to]);
  const folder = temporaryFolder();
  const text = join(folder, 'notes.txt');
  writeFileSync(text, 'no database');
  const cases: [place: string, said: string][] = [
    [text, 'it is not a SQLite database'],
    [folder, 'it is a folder'],
    [join(folder, 'none', 'new.db'), 'there is no folder'],
    [to, 'it is a database of Savestate itself'],
  ];
  for (const [place, said] of cases) {
    const { code, printed, noted } = await run(['export', to, '--to', place]);
    expect({ code, printed }).toEqual({ code: 2, printed: '' });
    expect(noted).toContain(`Threads cannot be exported to ${place}: ${said}`);
    expect(noted).toContain('Nothing was written; name a file of SqliteSaver, or a new one.');
  }
  expect(readFileSync(text, 'utf8')).toBe('no database');
  expect((await run(['export', to, '--to', from])).noted).toContain('npm install');
});

test('[langgraph.23] help, and a stop', async () => {
  const help = await run(['--help']);
  expect(help.code).toBe(0);
  expect(help.printed).toContain('savestate langgraph import checkpoints.db --to threads.db');
  const { from, to } = officialFile();
  const stopped = await run(['import', from, '--to', to], { signal: AbortSignal.abort() });
  expect(stopped).toMatchObject({ code: 130, printed: '' });
  expect(stopped.noted).toContain('run the same command again');
});

test('[langgraph.21] a stopped import tells what it had to name until then', async () => {
  const { from, to } = officialFile();
  const stop = new AbortController();
  const onNote = (text: string) => (/^[89]\d %/.test(text) ? stop.abort() : undefined);
  const { code, printed, noted } = await run(['import', from, '--to', to, '--progress', 'always'], {
    signal: stop.signal,
    onNote,
  });
  expect({ code, printed }).toEqual({ code: 130, printed: '' });
  expect(noted).toMatch(/^[89]\d %/m);
  const whole = await run(['import', from, '--to', `${to}-whole.db`]);
  const named = (text: string) => text.split('\n').filter((line) => line.startsWith('  faulty '));
  expect(named(noted).length).toBeGreaterThan(0);
  expect(named(whole.printed)).toEqual(expect.arrayContaining(named(noted)));
});
