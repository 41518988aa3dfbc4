import { relative } from 'node:path';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import { findAt } from '../../view/state-path.ts';
import type { Context } from '../base/context.ts';
import type { OpenStorage } from '../base/open-storage.ts';
import { type Address, addressExists, formatAddress } from '../place/address.ts';
import { resolveRevision } from '../revision/resolve-revision.ts';
import { describeQuestion, replWords, toQuestion } from '../team/run-text.ts';
import { describeRound } from './repl-rounds.ts';

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
  const session = head === undefined ? 'none yet; your first prompt starts one' : describePlace(head);
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
export function describePlace(checkpoint: Checkpoint): string {
  const { sessionId, branch } = checkpoint;
  return `${sessionId}, branch ${branch}, ${describeRound(checkpoint)}`;
}

/** What the person is asked there, and what can be typed; undefined if nothing is. */
export async function findQuestion(opened: OpenStorage, { id, status }: Checkpoint): Promise<string | undefined> {
  if (status !== 'waiting_for_input') return undefined;
  const state = await opened.manager.load(id);
  const [request] = Object.values(findAt(state, ['fleet', 'requests']) ?? {});
  const asked: unknown = request ?? findAt(state, ['chat', 'pendingInput']);
  if (typeof asked !== 'object' || asked === null) return undefined;
  return describeQuestion(toQuestion(asked as Parameters<typeof toQuestion>[0]), replWords());
}
