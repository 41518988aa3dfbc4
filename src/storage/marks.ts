import type { CheckpointHeader } from '../core/record/checkpoint-header.ts';
import { type Digest, digestText } from '../core/tree/chunk.ts';
import { Breather } from './breather.ts';
import type { EffectRow } from './contract.ts';

/** Sixteen hexadecimal characters that change if any part of an effect does, its place too. */
export function effectCheck({ sessionId, branch, ordinal, digest, body, result }: EffectRow): string {
  return digestText(JSON.stringify([sessionId, branch, ordinal, digest, body, result?.text, result?.refs])).slice(
    0,
    16,
  );
}

/** The same for a tombstone, whose digest is that of the record it replaces. */
export function tombstoneCheck({ id, digest, body }: { id: string; digest: Digest; body: string }): string {
  return digestText(JSON.stringify([id, digest, body])).slice(0, 16);
}

/** What a checkpoint is found by besides its id, in the order of the columns. */
export function filedUnder({
  timestampMs = 0,
  branch = null,
  type = null,
  status = null,
  agentId: agent = null,
  userId = null,
}: { readonly [Key in keyof CheckpointHeader]?: CheckpointHeader[Key] | null }) {
  return { timestampMs, branch, type, status, agent, userId };
}

/** The columns of a checkpoint that repeat parts of its record, so that it can be found by them. */
export type FiledColumns = {
  readonly id: string;
  readonly mark: string | null;
  readonly session: string | null;
  readonly branch: string | null;
  readonly type: string | null;
  readonly status: string | null;
  readonly agent: string | null;
  readonly userId: string | null;
  readonly idempotency: string | null;
  readonly timestampMs: number;
  readonly isDeleted: boolean;
  readonly hasRoot: boolean;
};

/** What is wrong with a stored checkpoint that no digest covers. `read` decodes its record. */
export function* checkFiled(
  row: FiledColumns,
  read: () => { readonly digest: Digest; readonly body: string },
): Generator<string> {
  const where = `Checkpoint ${row.id}`;
  const whole = readOrUndefined(read);
  if (row.isDeleted && (whole === undefined || row.mark !== tombstoneCheck({ id: row.id, ...whole })))
    yield `${where} was deleted, and its tombstone is damaged.`;
  const header = readOrUndefined(() => JSON.parse(whole?.body ?? '') as CheckpointHeader);
  if (header === undefined) yield `${where} has a record that cannot be read.`;
  else
    for (const what of findMisfiled(row, header)) yield `${where} is filed under another ${what} than its record says.`;
}

/** What is wrong with a stored effect. `read` decodes it. */
export function* checkEffect(
  { session, branch, ordinal, mark }: EffectPlace & { readonly mark: string },
  read: () => EffectRow,
): Generator<string> {
  if (readOrUndefined(() => effectCheck(read())) !== mark)
    yield `${describeEffect({ session, branch, ordinal })} is damaged.`;
}

type EffectPlace = { readonly session: string | null; readonly branch: string; readonly ordinal: number };

export function describeEffect({ session, branch, ordinal }: EffectPlace): string {
  return `Effect ${ordinal} of branch "${branch}" of session "${session}"`;
}

/** Every row of a query that is read in pages, each after the last row of the one before, with turns of the event loop in between. */
export async function* eachRow<Row>(
  pageSize: number,
  readPage: (last: Row | undefined) => readonly Row[] | Promise<readonly Row[]>,
): AsyncGenerator<Row> {
  const breather = new Breather();
  for (let last: Row | undefined; ; ) {
    const rows = await readPage(last);
    for (const row of rows) {
      await breather.breathe();
      yield row;
    }
    if (rows.length < pageSize) return;
    last = rows.at(-1);
  }
}

/** Undefined in place of whatever error a damaged row leads to. */
export function readOrUndefined<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

function findMisfiled(filed: FiledColumns, header: CheckpointHeader): string[] {
  const isTombstone = 'deletedAtMs' in header;
  const pairs: [what: string, column: unknown, recorded: unknown][] = [
    ['id', filed.id, header.id],
    ['session', filed.session, header.sessionId],
    ['branch', filed.branch, header.branch],
    ['type', filed.type, header.type],
    ['status', filed.status, header.status],
    ['agent', filed.agent, header.agentId],
    ['user', filed.userId, header.userId],
    ['time', filed.timestampMs, header.timestampMs],
    ['idempotency key', filed.idempotency, header.idempotencyKey],
    ['state of deletion', filed.isDeleted, isTombstone],
    ['state of deletion', filed.hasRoot, !isTombstone],
  ];
  return pairs.filter(([, column, recorded]) => column !== (recorded ?? null)).map(([what]) => what);
}
