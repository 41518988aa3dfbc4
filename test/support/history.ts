import { inspect } from 'node:util';
import { SavestateError } from '../../src/core/errors.ts';
import { CheckpointManager } from '../../src/manager/checkpoint-manager.ts';
import type { ChunkStorage } from '../../src/storage/contract.ts';

const SESSIONS = ['alpha', 'beta', '../odd name'] as const;
const STEPS = ['plan', 'search', 'write', 'fail'] as const;
const TEXT_CHARS = 700;

/** Everything a caller can get out of a storage, by question. A list is one entry per item; an error is its code. */
export type Reading = ReadonlyMap<string, string | readonly string[]>;

/** Fills a storage with a little of everything: sessions, branches, edits, effects, tags, pins, marks, tombstones, garbage. */
export async function writeHistory(storage: ChunkStorage): Promise<void> {
  const manager = new CheckpointManager({ storage });
  for (const [number, sessionId] of SESSIONS.entries()) await writeSession(manager, sessionId, 12 - 4 * number);
  await manager.close();
}

async function writeSession(manager: CheckpointManager, sessionId: string, count: number): Promise<void> {
  const session = await manager.session(sessionId);
  const messages: unknown[] = [];
  const ids: string[] = [];
  for (let i = 0; i < count; i++) {
    messages.push({ number: i, text: `${sessionId} ${i} `.repeat(i % 3 === 0 ? TEXT_CHARS / 5 : 10) });
    const name = STEPS[i % STEPS.length] as string;
    await session
      .step(name, () => runStep(name, i), { input: { i } })
      .catch((error: Error) => messages.push({ failed: error.message }));
    const state = { messages, seen: new Map([['at', new Date(i * 1000)]]), bytes: new Uint8Array([i, 255]) };
    ids.push(
      await session.save(state, {
        agentId: `agent-${i % 2}`,
        userId: `user-${sessionId.length}`,
        status: i % 2 === 0 ? 'RUNNING' : 'WAITING',
        type: i === 2 ? 'pre_operation' : 'manual',
        metadata: { turn: i, tags: ['a', sessionId] },
        idempotencyKey: `${sessionId}-${i}`,
      }),
    );
  }
  const [first = '', second = '', third = ''] = ids;
  await manager.tag(third, 'release');
  await manager.pin(second);
  await manager.completeOperation(third);
  const edit = [{ op: 'replace', path: '/messages/0/number', value: -1 }] as const;
  await manager.fork(second, { branch: 'what-if', edit, author: 'ann', reason: 'to see' });
  await manager.rewind(third, { branch: 'again' });
  const again = await manager.session(sessionId);
  await again.step('after the rewind', () => 'x'.repeat(TEXT_CHARS));
  await again.save({ messages: messages.slice(0, 2) });
  await manager.delete(first, { reason: 'old' });
  await manager.delete(ids[3] ?? '', { reason: 'older' });
}

function runStep(name: string, i: number): unknown {
  if (name === 'fail') throw new RangeError(`step ${i} failed`);
  return name === 'plan' ? `plan ${i} `.repeat(TEXT_CHARS / 5) : { i, name };
}

/** What a storage holds, as far as the questions need to know: which ids to ask for. */
export type Known = { readonly ids: readonly string[] };

/** The ids of everything that was ever saved, deleted ones too. */
export async function knownIds(storage: ChunkStorage): Promise<Known> {
  const rows = await storage.listCheckpoints({ limit: 1000, include: 'all', order: 'oldest' });
  return { ids: rows.map(({ id }) => id) };
}

/** Asks a manager everything there is to ask. */
export async function readEverything(manager: CheckpointManager, { ids }: Known): Promise<Reading> {
  const reading = new Map<string, string | readonly string[]>();
  const ask = async (question: string, answer: () => Promise<unknown>): Promise<void> => {
    reading.set(question, await answer().then(show, showError));
  };
  const list = (filter: object) => async () => (await manager.list(filter, { limit: 1000 })).checkpoints.map(headerOf);
  for (const id of ids) {
    await ask(`state of ${id}`, () => manager.load(id));
    await ask(`header of ${id}`, async () => headerOf(await manager.get(id)));
    await ask(`path of ${id}`, async () => (await manager.pathToRoot(id)).map((entry) => entry.id));
  }
  for (const sessionId of SESSIONS) {
    await ask(`list of ${sessionId}`, list({ sessionId }));
    await ask(`export of ${sessionId}`, () => collect(manager.exportSession(sessionId)));
    await ask(`tree of ${sessionId}`, async () => [...(await manager.tree(sessionId)).nodes.values()].map(nodeOf));
    await ask(`branches of ${sessionId}`, () => manager.branches(sessionId));
    await ask(`tags of ${sessionId}`, () => manager.tags(sessionId));
    await ask(`user of ${sessionId}`, list({ userId: `user-${sessionId.length}` }));
    for (const branch of ['', 'main', 'what-if', 'again'])
      await ask(`open ${sessionId} on "${branch}"`, () => open(manager, sessionId, branch));
    await ask(`effects of ${sessionId}`, () => replay(manager, sessionId));
  }
  await ask('list by agent', list({ agentId: 'agent-1' }));
  await ask('list by metadata', list({ metadata: { turn: 3 } }));
  // Of a damaged session nothing is pruned; in others damage elsewhere may spare a checkpoint, but never doom one.
  for (const sessionId of SESSIONS) {
    await ask(`what prune would drop of ${sessionId}`, async () => {
      const { checkpoints } = await manager.list({ sessionId }, { limit: 1000 });
      const ids = new Set<string>(checkpoints.map(({ id }) => id));
      const { verdicts } = await manager.prune({ policy: { keepLast: 1 }, dryRun: true });
      return verdicts.filter(({ id, keep }) => !keep && ids.has(id)).map(({ id }) => id);
    });
  }
  return reading;
}

async function collect(lines: AsyncIterable<string>): Promise<string[]> {
  const all: string[] = [];
  for await (const line of lines) all.push(line);
  return all;
}

async function open(manager: CheckpointManager, sessionId: string, branch: string): Promise<unknown> {
  const session = await manager.session(sessionId, branch === '' ? {} : { branch });
  // A session that is begun anew has nothing in it: then what was there is absent.
  const found = session.head && { branch: session.branch, headId: session.head.id, state: session.state };
  await session.close();
  return found;
}

/** The recorded results of a session's main branch. */
async function replay(manager: CheckpointManager, sessionId: string): Promise<unknown> {
  const session = await manager.session(sessionId, { branch: 'main', mode: 'frozen', replayFrom: 'start' });
  const results: unknown[] = [];
  for (let i = 0; i < (session.head?.sequence ?? 0); i++) {
    const name = STEPS[i % STEPS.length] as string;
    const run = (): never => {
      throw new Error('a frozen step must not run');
    };
    const step = session.step(name, run, { input: { i } });
    results.push(await (name === 'fail' ? step.catch(failureOf) : step));
  }
  await session.close();
  return results;
}

/** The recorded failure of a step is a result here; an error of the storage is not. */
function failureOf(error: unknown): string {
  if (error instanceof SavestateError) throw error;
  return `failed: ${error instanceof Error ? error.message : String(error)}`;
}

function headerOf(checkpoint: { readonly header: object } | undefined): unknown {
  return checkpoint?.header;
}

function nodeOf({ checkpoint, ...node }: { readonly checkpoint: { readonly header: object } | undefined }): unknown {
  return { ...node, header: headerOf(checkpoint) };
}

function show(value: unknown): string | readonly string[] {
  return Array.isArray(value) ? value.map(showOne) : showOne(value);
}

function showOne(value: unknown): string {
  return inspect(value, { depth: null, maxArrayLength: null, maxStringLength: null, breakLength: Infinity });
}

function showError(error: unknown): string {
  return error instanceof SavestateError ? `!${error.code}` : `!! ${String(error)}`;
}

/** `altered`: something came back that was never saved. `absent`: something is not there, without an error. */
export type Comparison = {
  readonly altered: readonly string[];
  readonly absent: readonly string[];
  readonly refused: number;
};

/** Compares what is read with what was there. A refusal by an error of ours is as it should be. */
export function compareReadings(whole: Reading, found: Reading): Comparison {
  const altered: string[] = [];
  const absent: string[] = [];
  let refused = 0;
  for (const [question, expected] of whole) {
    const answer = found.get(question);
    if (same(expected, answer)) continue;
    if (typeof answer === 'string' && /^!(CORRUPT|STORAGE|UNSUPPORTED)$/.test(answer)) refused++;
    else if (isLess(expected, answer) || isOtherBranch(whole, question, answer)) absent.push(question);
    else altered.push(`${question}: ${firstDifference(expected, answer)}`);
  }
  return { altered, absent, refused };
}

function same(a: string | readonly string[], b: string | readonly string[] | undefined): boolean {
  if (typeof a === 'string' || typeof b === 'string' || b === undefined) return a === b;
  return a.length === b.length && a.every((item, i) => item === b[i]);
}

/** Whether an answer only lacks something: items of a list, or all of it. */
function isLess(expected: string | readonly string[], answer: string | readonly string[] | undefined): boolean {
  if (answer === undefined || answer === 'undefined' || answer === '!NOT_FOUND' || answer === '!REPLAY_MISMATCH')
    return true;
  if (typeof answer === 'string' || typeof expected === 'string') return false;
  const all = new Set(expected);
  return answer.length < expected.length && answer.every((item) => all.has(item) || isEnd(item));
}

/** An export that lacks lines ends with another count of them. */
function isEnd(item: string): boolean {
  return item.startsWith(`'{"end":{`);
}

/** Whether a branch, or the note which one is current, is absent: then what is opened begins at the head of another branch. */
function isOtherBranch(whole: Reading, question: string, answer: string | readonly string[] | undefined): boolean {
  const [, session] = /^open (.+) on ".*"$/.exec(question) ?? [];
  if (session === undefined || typeof answer !== 'string') return false;
  return ['', 'main'].some((branch) => {
    const other = whole.get(`open ${session} on "${branch}"`);
    return typeof other === 'string' && withoutBranch(other) === withoutBranch(answer);
  });
}

function withoutBranch(opened: string): string {
  return opened.replace(/branch: '[^']*',\s*/, '').replaceAll(/\s+/g, ' ');
}

function firstDifference(expected: string | readonly string[], answer: string | readonly string[] | undefined): string {
  const [a, b] = [String(expected), String(answer)];
  let at = 0;
  while (at < a.length && a[at] === b[at]) at++;
  return `"${a.slice(Math.max(at - 40, 0), at + 40)}" became "${b.slice(Math.max(at - 40, 0), at + 40)}"`;
}
