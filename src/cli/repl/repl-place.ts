import { relative } from 'node:path';
import { NotFoundError } from '../../core/errors.ts';
import { formatCount } from '../../core/format-count.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import { type Round, readRounds, roundOf } from '../../manager/revision/rounds.ts';
import { type CheckpointOutput, type Names, toOutput } from '../../view/checkpoint-output.ts';
import type { Context, OpenStorage } from '../base/command.ts';
import { type Address, addressExists, formatAddress } from '../place/address.ts';
import { resolveRevision } from '../revision/resolve-revision.ts';
import { formatHistory, readWords } from '../state/checkpoint-text.ts';
import { describeQuestion, replWords, toQuestion } from '../team/run-text.ts';

/** Where the person is when the REPL begins: team, storage, session, and what is waited for. */
export async function describeStart(context: Context, team: string): Promise<string> {
  const address = await context.address();
  const rows = [
    ['team', team],
    ['storage', describeStorage(context, address)],
  ];
  if (!addressExists(address)) return formatPlace(rows);
  const opened = await context.open();
  const head = await findHere(opened);
  const session = head === undefined ? 'none yet; your first prompt starts one' : await describePlace(opened, head);
  const question = head === undefined ? undefined : await findQuestion(opened, head);
  return `${formatPlace([...rows, ['session', session]])}${question === undefined ? '' : `\n${question}\n`}`;
}

function formatPlace(rows: readonly (readonly string[])[]): string {
  return rows.map(([name = '', what]) => `${name.padEnd('storage'.length)}  ${what}\n`).join('');
}

function describeStorage({ folder }: Context, address: Address): string {
  const isPath = address.kind === 'sqlite' || address.kind === 'file';
  const near = isPath ? relative(folder, address.path) : '';
  const shown = isPath && !near.startsWith('..') ? `${address.kind}:${near}` : formatAddress(address);
  return addressExists(address) ? shown : `${shown}, not made yet; your first prompt makes it`;
}

/** The checkpoint one is at; undefined where there is nothing yet. */
export async function findHere(opened: OpenStorage): Promise<Checkpoint | undefined> {
  if ((await opened.findSession()) === undefined) return undefined;
  return resolveRevision(opened, '@').catch(() => undefined); // a session that is begun by the next prompt
}

/** Session, branch and round. */
export async function describePlace(opened: OpenStorage, here: Checkpoint): Promise<string> {
  return `${here.sessionId}, branch ${await branchHere(opened, here)}, ${describeRound(here)}`;
}

/** The current branch, whose head may be a checkpoint of another one; where one went to a checkpoint, the branch it was saved on. */
export async function branchHere({ position, manager }: OpenStorage, here: Checkpoint): Promise<string> {
  return position === undefined ? manager.currentBranch(here.sessionId) : here.branch;
}

/** What the person is asked there, and what can be typed; undefined if nothing is. Before the head one begins a branch, which asks for itself. */
export async function findQuestion(opened: OpenStorage, checkpoint: Checkpoint): Promise<string | undefined> {
  const { id, sessionId, branch, status } = checkpoint;
  if (status !== 'waiting_for_input') return undefined;
  const { findOpenRequests, requestsIn } = await import('../../view/requests.ts');
  const state = await opened.manager.load(id);
  const isHead = (await opened.findName(sessionId, 'branch', branch)) === id;
  const asked = isHead ? await findOpenRequests(opened.manager, { sessionId, branch, state }) : requestsIn(state);
  const [request] = asked as Parameters<typeof toQuestion>[0][];
  return request && describeQuestion(toQuestion(request), replWords());
}

/** Where a checkpoint stands, in words: `round 3`, or its number where nobody counts rounds. */
export function describeRound(checkpoint: Checkpoint): string {
  const round = roundOf(checkpoint);
  return round === undefined ? `#${checkpoint.sequence}` : `round ${round}`;
}

/** The end of the round with this number, as `checkpoints` shows it, also of one that was gone back from; where nobody counts, the checkpoint with it. */
export async function openRound(opened: OpenStorage, number: number): Promise<Checkpoint> {
  const here = await resolveRevision(opened, '@');
  const head = await resolveRevision(opened, await opened.manager.currentBranch(await opened.session()));
  for (const from of here.id === head.id ? [here] : [here, head])
    for await (const round of readRounds(opened.storage, from)) if (round.number === number) return round.end;
  if (roundOf(here) === undefined) return resolveRevision(opened, `#${number}`);
  throw new NotFoundError(`There is no round ${number} here. "checkpoints" lists them.`, {
    details: { round: number },
  });
}

/** The end of the round that is so many before this checkpoint. */
export async function goBack(opened: OpenStorage, from: Checkpoint, count: number): Promise<Checkpoint> {
  if (count === 0) return from;
  let passed = 0;
  for await (const { rows, end } of readRounds(opened.storage, from)) {
    const isHere = rows[0]?.id === from.id && end.id === from.id;
    if (!isHere && ++passed === count) return end;
  }
  throw new NotFoundError(`Only ${formatCount(passed, 'round')} came before this one.`, {
    details: { asked: count, found: passed },
  });
}

/** Rounds as a table, the oldest first: their numbers, ids, times, and what was said. */
export async function formatRounds(context: Context, rounds: readonly Round[], names: Names): Promise<string> {
  const all = rounds.flatMap(({ rows }) => rows).reverse();
  const words = await readWords(context, all);
  // A prompt that came after the end of a round has only the number of its checkpoint.
  const numbers = new Map<string, number | undefined>(rounds.map(({ number, end }) => [end.id, number]));
  const head = rounds.some(({ number }) => number !== undefined) ? 'round' : '#';
  const numberOf = ({ id, sequence }: CheckpointOutput) => String(numbers.get(id) ?? `#${sequence}`);
  const outputs = all.map((checkpoint) => toOutput(checkpoint, names));
  return formatHistory(context.terminal, outputs, { words, by: { head, numberOf } });
}
