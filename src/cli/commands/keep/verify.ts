import { createReadStream, existsSync } from 'node:fs';
import { CorruptError, hasErrorCode, NotFoundError, type SavestateError, withoutAdvice } from '../../../core/errors.ts';
import { CheckpointManager } from '../../../manager/checkpoint-manager.ts';
import type { VerifyReport } from '../../../manager/verify/verify.ts';
import type { ChunkStorage } from '../../../storage/contract.ts';
import { InMemoryCheckpointStorage } from '../../../storage/memory/memory-storage.ts';
import { wrapStorage } from '../../../storage/wrap.ts';
import { closing } from '../../base/closing.ts';
import { type Command, type Context, EXIT, type ExitCode } from '../../base/command.ts';
import { formatFlags } from '../../base/command-input.ts';
import { formatCount } from '../../terminal/format.ts';

/** Findings that are printed; more are counted, and all are in the JSON. */
const MAX_FINDINGS = 20;

/** Checks that what is stored is whole. */
export const command: Command = {
  arguments: '[file]',
  options: [['--read-data', 'read every chunk, too: checks everything, and takes longer']],
  details:
    'Checks records, chains, names and effects. With a file: checks an exported session. Exits with 4 if something is damaged. A session whose key was removed is named, and is no damage.',
  examples: [
    ['savestate verify', 'the quick check'],
    ['savestate verify --read-data', 'every byte'],
    ['savestate verify session.jsonl', 'an exported session'],
  ],
  run: async (context, input) => {
    const file = input.word(0);
    if (file !== undefined) return verifyFile(context, file);
    const readData = input.flag('readData');
    return tell(context, await verifyStorage(context, readData).catch(adviseNoVerify), readData);
  },
};

async function verifyStorage(context: Context, readData: boolean): Promise<VerifyReport> {
  const storage = await context.openAt(await context.address(), { create: false });
  const total = await storage.stats().then(
    ({ checkpoints }) => checkpoints,
    () => undefined, // what is wrong is told by the check itself
  );
  return context.showing({ noun: 'checkpoints', total }, (show) => {
    const counted = watchReads(storage, { show, checkStop: () => context.checkStop() });
    return closing(new CheckpointManager({ storage: counted }), (manager) => manager.verify({ readData }));
  });
}

/** Damage that leaves nothing to check. */
function adviseNoVerify(error: unknown): never {
  if (!hasErrorCode(error, 'CORRUPT')) throw error;
  const { message, details } = error as SavestateError;
  throw new CorruptError(withoutAdvice(message), { cause: error, details });
}

async function verifyFile(context: Context, file: string): Promise<ExitCode | undefined> {
  if (!existsSync(file)) throw new NotFoundError(`There is no file ${file}.`);
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  await manager.importSession(createReadStream(file));
  return tell(context, await manager.verify(), true);
}

async function tell(context: Context, report: VerifyReport, hasReadData: boolean): Promise<ExitCode | undefined> {
  const { status, findings, damagedCheckpoints, forgotten, checkpoints, chunks, effects, sessions, tombstones } =
    report;
  const counts = { checkpoints, tombstones, chunks, effects, sessions };
  await context.answer({ status, ...counts, hasReadData, findings, damagedCheckpoints, forgotten }, () =>
    format(report, hasReadData),
  );
  for (const { sessionId, checkpoints: lost } of forgotten.slice(0, MAX_FINDINGS))
    context.say(
      `Session "${sessionId}" was forgotten: a key was removed, and ${formatCount(lost, 'checkpoint')} cannot be read. To delete the rest of it: ${context.command(`forget${formatFlags({ 'whole-session': sessionId })}`)}`,
    );
  if (status !== 'damaged') return undefined;
  context.say(`Everything not named here can be read. Save it with: ${context.command('export')}, or with copy`);
  return EXIT.damaged;
}

function format({ status, findings, ...counts }: VerifyReport, hasReadData: boolean): string {
  const seen = `${formatCount(counts.checkpoints, 'checkpoint')} of ${formatCount(counts.sessions, 'session')}, ${formatCount(counts.effects, 'effect')}`;
  const data = hasReadData ? `, ${formatCount(counts.chunks, 'chunk')}` : '; chunks were not read, --read-data does';
  const { length } = counts.forgotten;
  const forgotten = length === 0 ? '' : `; ${formatCount(length, 'session')} forgotten with its key`;
  if (status !== 'damaged') return `clean: ${seen}${data}${forgotten}\n`;
  const more = findings.length - MAX_FINDINGS;
  const lines = findings.slice(0, MAX_FINDINGS).map(({ subject, problem }) => `  ${subject}: ${problem}\n`);
  const isListed = findings.every(({ subject }) => subject !== 'the list of checkpoints');
  const damaged = isListed
    ? `${formatCount(counts.damagedCheckpoints.length, 'checkpoint')} cannot be restored`
    : 'the list of checkpoints cannot be read whole, so how many cannot be restored is not known';
  return `damaged: ${formatCount(findings.length, 'finding')}, ${damaged} (found: ${seen}${data})\n${lines.join('')}${more > 0 ? `  and ${more} more; --json lists them all\n` : ''}`;
}

type ReadWatch = { readonly show: (count: number) => void; readonly checkStop: () => Promise<void> };

/** A storage that tells how many checkpoints were read, and lets Ctrl-C stop a check that knows of neither. */
function watchReads(storage: ChunkStorage, { show, checkStop }: ReadWatch): ChunkStorage {
  let count = 0;
  return wrapStorage(storage, {
    listChunks: (page) => checkStop().then(() => storage.listChunks(page)),
    readChunks: (digests) => checkStop().then(() => storage.readChunks(digests)),
    readRefs: (query) => checkStop().then(() => storage.readRefs(query)),
    readEffects: (query) => checkStop().then(() => storage.readEffects(query)),
    readCheckpoint: async (id) => {
      await checkStop();
      show(++count);
      return storage.readCheckpoint(id);
    },
  });
}
