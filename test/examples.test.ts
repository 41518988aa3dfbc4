import { execFile } from 'node:child_process';
import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import './support/built.ts';
import { LATER } from './support/later.ts';
import { temporaryFolder } from './support/storages.ts';

const ROOT = resolve(import.meta.dirname, '..');

/** Runs an example as its reader would, with the built library; rejects if it does not end with 0. */
async function run(example: string, ...args: string[]): Promise<string[]> {
  const { OPENAI_API_KEY: _, AZURE_OPENAI_API_KEY: __, ...env } = process.env;
  const program = join(ROOT, 'examples', example);
  const { stdout } = await promisify(execFile)(process.execPath, [program, ...args], { env });
  return stdout.trimEnd().split('\n');
}

/** What was said between two numbered headings. */
function part(lines: readonly string[], number: number): string[] {
  const begin = lines.findIndex((line) => line.startsWith(`${number}. `));
  const end = lines.findIndex((line) => line.startsWith(`${number + 1}. `));
  return lines.slice(begin + 1, end < 0 ? undefined : end).map((line) => line.trim());
}

test(
  'a LangGraph graph is killed, goes on elsewhere, waits for a person, and is looked at afterwards',
  LATER,
  async () => {
    const lines = await run('langgraph/approval.mjs');
    expect(part(lines, 1)).toEqual([
      'agent runs: the model thinks',
      'lookUp runs: the tool reads order 1042',
      'agent runs: the model thinks',
      'the model does not answer',
      '(killed with SIGKILL)',
    ]);
    expect(part(lines, 2)).toEqual(['agent runs: the model thinks', 'waits for a person: Pay 39 back for order 1042?']);
    expect(part(lines, 3)).toEqual([
      'refund runs: Ann said yes',
      'agent runs: the model thinks',
      'done: You get 39 back.',
    ]);
    expect(part(lines, 4)).toHaveLength(7);
    expect(part(lines, 5)).toEqual(['$.channel_values.messages[4]: {"paid":39}']);
    expect(part(lines, 6).at(-1)).toBe('waits for a person: Pay 45 back for order 1042?');
    expect(part(lines, 7)).toEqual([
      expect.stringMatching(/^fork-.*: \{"item":"teapot","price":45\}$/),
      'main: {"item":"teapot","price":39}',
    ]);
    expect(lines.at(-1)).toMatch(/^8\. Verified: \d+ checkpoints, clean\.$/);
  },
);

test("LangGraph's own server is killed; another one has its threads", LATER, async () => {
  const lines = await run('langgraph/served.mjs');
  expect(part(lines, 1)).toEqual(['waits for a person: Pay 39 back for order 1042?']);
  expect(part(lines, 2)).toEqual(['interrupted: 4 messages']);
  expect(part(lines, 3)).toEqual(['You get 39 back.']);
  expect(part(lines, 4).slice(0, 2)).toEqual([
    'waits for a person: Pay 39 back for order 1042?',
    'I may not pay that back.',
  ]);
});

test('transcripts of the Claude Agent SDK are read, forked and rewound', async () => {
  const lines = await run('claude/sessions.mjs');
  expect(part(lines, 1)).toEqual(['4 messages']);
  expect(part(lines, 2)).toEqual([
    expect.stringMatching(/^[1-7] new chunks for 4 messages$/),
    'session: What if',
    'session: Where is order 1042?',
  ]);
  expect(part(lines, 3)).toEqual(['checkpoint 2: entries_appended', 'checkpoint 1: entries_appended', '2 messages']);
  expect(lines.at(-1)).toBe('4. Verified: clean.');
});

test('traces of an agent that runs in circles come in, are judged, and go out as a trajectory', async () => {
  const lines = await run('interchange/traces.mjs');
  expect(part(lines, 1)).toEqual(['Session "otlp/order-1042": 12 checkpoints, 24 messages.']);
  expect(part(lines, 2)).toEqual([expect.stringMatching(/^drifting: loop\b/)]);
  expect(part(lines, 3)).toEqual(['ATIF-v1.7: 12 steps']);
});

test('a run of the OpenAI Agents SDK is killed, goes on elsewhere, waits for a person, and ends', LATER, async () => {
  const lines = await run('openai-agents/refund.mjs');
  expect(part(lines, 1)).toEqual([
    'the model thinks',
    'the tool reads order 1042',
    'the model thinks',
    'the model does not answer',
    '(killed with SIGKILL)',
  ]);
  expect(part(lines, 2)).toEqual(['the model thinks', 'waits for a person']);
  expect(part(lines, 3)).toEqual(['refund {"order":"1042","amount":39}: yes']);
  expect(part(lines, 4)).toEqual(['the tool pays 39 back', 'the model thinks', 'done: You get 39 back.']);
});

test(
  'an agent of the AI SDK is killed in the middle of a stream and goes on; a chat is answered twice',
  LATER,
  async () => {
    const lines = await run('ai-sdk/orders.mjs');
    expect(part(lines, 1)).toEqual([
      'the model is asked',
      'the tool reads order 1042',
      'the model is asked with the result',
      'it says: It left',
      'the model does not go on',
      '(killed with SIGKILL)',
    ]);
    expect(part(lines, 2)).toEqual([
      'the model is asked with the result',
      'it says: It left',
      'it says: yesterday.',
      'done: It left yesterday.',
    ]);
    expect(part(lines, 3)).toEqual(['run_completed', 'step_completed', 'run_started']);
    expect(part(lines, 4)).toEqual(['a1: No idea.', 'a2: It left yesterday.', 'active: u1, a1']);
    expect(lines.at(-1)).toBe('5. Verified: clean.');
  },
);

test('a client of the AI SDK that was cut off gets the whole answer from another server', async () => {
  const lines = await run('ai-sdk/reconnect.mjs');
  expect(part(lines, 2)).toEqual(['Your order left yesterday.']);
  expect(part(lines, 3)).toEqual(['null']);
});

test('mathchat solves its problem offline, and goes on from every checkpoint file', LATER, async () => {
  const logs = join(temporaryFolder(), 'logs');
  const lines = await run('mathchat/mathchat.mjs', '--session-name', 'demo', '--logs', logs);
  expect(lines.join('\n')).toContain('and the program says 233168. SOLUTION_FOUND: 233168');
  const [session = ''] = readdirSync(logs).filter((name) => name.startsWith('session_'));
  const files = readdirSync(join(logs, session, 'checkpoints'));
  expect(files.length).toBe(9);
  for (const file of files.toSorted().slice(0, 4)) {
    const path = join(logs, session, 'checkpoints', file);
    const more = await run('mathchat/continue.mjs', path, '--rounds', '3', '--logs', logs);
    expect(more.join('\n')).toMatch(/(SOLUTION_FOUND: 233168|sum = 233168)/);
  }
  const last = join(logs, session, 'checkpoints', files.toSorted().at(-1) ?? '');
  const ended = await run('mathchat/continue.mjs', last, '--rounds', '1', '--logs', logs);
  expect(ended.join('\n')).toContain('The conversation had ended.');
  expect(ended.join('\n')).not.toContain('undefined');
  const stripped = await run('mathchat/continue.mjs', last, '--rounds', '1', '--logs', logs, '--strip-signal');
  expect(stripped).toContain('planner:');
});

test('mathchat goes on for the rounds it is given, and names a program that is there', LATER, async () => {
  const logs = join(temporaryFolder(), 'logs');
  const args = ['--session-name', 's', '--logs', logs];
  await run('mathchat/mathchat.mjs', ...args, '--rounds', '1');
  const more = await run('mathchat/mathchat.mjs', ...args, '--rounds', '5');
  expect(more.join('\n')).toContain('SOLUTION_FOUND: 233168');
  const [, program = ''] = /^Go on: {2}node (\S+)/.exec(more.at(-1) ?? '') ?? [];
  expect(existsSync(program)).toBe(true);
});

test('mathchat refuses another problem for a session that has one', async () => {
  const folder = temporaryFolder();
  const file = join(folder, 'task.txt');
  writeFileSync(file, 'What is 12*13?\n');
  const args = ['--session-name', 'demo', '--logs', join(folder, 'logs')];
  await run('mathchat/mathchat.mjs', ...args, '--problem-file', file);
  const again = await run('mathchat/mathchat.mjs', ...args, '--problem-file', file);
  expect(again).toContain('Going on with session demo.');
  writeFileSync(file, 'What is 100-1?\n');
  await expect(run('mathchat/mathchat.mjs', ...args, '--problem-file', file)).rejects.toMatchObject({
    code: 2,
    stderr: `Error: Session demo has another problem than ${file}: "What is 12*13?". Leave out --problem-file to go on with it, or name another session with --session-name.\n`,
  });
});

test(
  'mathchat continues a checkpoint file without being told where the others are, and says what it could not write',
  LATER,
  async () => {
    const folder = temporaryFolder();
    const logs = join(folder, 'kept');
    await run('mathchat/mathchat.mjs', '--rounds', '1', '--logs', logs);
    const [session = ''] = readdirSync(logs).filter((name) => name.startsWith('session_'));
    const [file = ''] = readdirSync(join(logs, session, 'checkpoints'));
    const source = join(logs, session, 'checkpoints', file);
    writeFileSync(join(folder, 'taken'), '');
    const more = await run('mathchat/continue.mjs', source, '--rounds', '1', '--output-root', join(folder, 'taken'));
    expect(more.join('\n')).toMatch(/^Files: {2}not written: .*taken/m);
  },
);

test('mathchat says what is wrong with its options', async () => {
  const logs = join(temporaryFolder(), 'logs');
  await expect(run('mathchat/mathchat.mjs', '--problem-file', '.', '--logs', logs)).rejects.toMatchObject({
    code: 2,
    stderr: 'Error: --problem-file . cannot be read: EISDIR: illegal operation on a directory, read\n',
  });
  await expect(run('mathchat/mathchat.mjs', '--rounds', 'many', '--logs', logs)).rejects.toMatchObject({
    code: 2,
    stderr: 'Error: --rounds must be a whole number from 1; found "many".\n',
  });
  await expect(run('mathchat/continue.mjs', 'nothing', '--logs', logs)).rejects.toMatchObject({
    code: 2,
    stderr: expect.stringContaining('Error: No checkpoint has an id that starts with "nothing".'),
  });
});

test('an agent that is killed while it books an order has a successor, which goes on and books it once', async () => {
  expect(await run('loop/clerk.mjs')).toEqual([
    'books order 17',
    'the process ended: crash',
    'has handled order 17',
    'the process ended: done',
    "{ status: 'done', restarts: 1 }",
  ]);
});
