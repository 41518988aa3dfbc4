import { createReadStream, existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { MAX_DOCUMENT_BYTES } from '../../../adapter/interchange/document.ts';
import { storeRuns } from '../../../adapter/interchange/imported-session.ts';
import { InvalidInputError, NotFoundError } from '../../../core/errors.ts';
import type { Context } from '../../base/context.ts';
import { formatCount } from '../../terminal/format.ts';

/** Brings in a trajectory (ATIF) or traces (OTLP JSON) as sessions. */
export async function importForeign(context: Context, format: 'atif' | 'otlp', file: string): Promise<undefined> {
  const document = await readDocument(context, file);
  const { runs, ...counts } = await read(format, document);
  const { manager } = await context.open({ create: true });
  const sessions = await storeRuns(manager, runs);
  await context.answer({ sessions, ...counts }, () =>
    sessions
      .map(({ sessionId, checkpoints, messages, isNew }) => {
        const what = `${formatCount(checkpoints, 'checkpoint')}, ${formatCount(messages, 'message')}`;
        return `Session "${sessionId}": ${isNew ? what : 'there already, left alone'}.\n`;
      })
      .join(''),
  );
  if (counts.otherSpans) context.say(`${counts.otherSpans} of ${counts.spans} spans call no model or tool: left out.`);
  const [first] = sessions.map(({ sessionId }) => sessionId);
  context.say(`See it: ${context.command('log', first)}    Loops and stalls: ${context.command('drift', first)}`);
}

async function read(format: 'atif' | 'otlp', document: string) {
  if (format === 'otlp') return (await import('../../../adapter/interchange/otlp.ts')).readOtlp(document);
  const { readAtif } = await import('../../../adapter/interchange/atif.ts');
  return { runs: readAtif(document), spans: 0, otherSpans: 0 };
}

async function readDocument(context: Context, file: string): Promise<string> {
  const path = resolve(context.folder, file);
  if (file !== '-' && !existsSync(path)) throw new NotFoundError(`There is no file ${file}.`);
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of file === '-' ? process.stdin : createReadStream(path)) {
    await context.checkStop();
    bytes += (part as Buffer).length;
    if (bytes > MAX_DOCUMENT_BYTES)
      throw new InvalidInputError(
        `${file} has more than ${MAX_DOCUMENT_BYTES / 1024 ** 2} MiB, which is more than is imported at once. Split it.`,
      );
    parts.push(part as Buffer);
  }
  return Buffer.concat(parts).toString('utf8');
}
