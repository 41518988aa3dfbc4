import {
  ConflictError,
  InvalidInputError,
  messageOf,
  NotFoundError,
  SavestateError,
  withoutAdvice,
} from '../../../core/errors.ts';
import type { ChunkStorage } from '../../../storage/contract.ts';
import type { KeyFile } from '../../../storage/encryption/key-file.ts';
import type { Keyring } from '../../../storage/encryption/keyring.ts';
import { closing } from '../../base/closing.ts';
import type { Command, CommandInput, Context } from '../../base/command.ts';
import { formatAddress, openAddress } from '../../place/address.ts';
import { findKeys, type KeySource } from '../../place/key-source.ts';
import { formatCount, formatRows, formatTime } from '../../terminal/format.ts';

const MAIN = 'main';

const ACTIONS: Readonly<Record<string, Command['run']>> = { list, add: addKey, rotate, remove };

/** Manages the keys of an encrypted storage. */
export const command: Command = {
  arguments: '<action> [name]',
  options: [['--dry-run', 'with remove: only say what would become unreadable']],
  details: `Actions: list; add [name] (the first key of a name, default "${MAIN}"; creates the key file); rotate [name] (a new key for
new data; old keys still decrypt); remove <id or name> (its data becomes unreadable for good, in every copy and backup; asks first).
Keys come from encryption.keys in savestate.yaml (file:<path> or env:<variable>), or from SAVESTATE_KEY_FILE, SAVESTATE_KEYS (the text itself) or
SAVESTATE_KEY_COMMAND (a command that prints it), never from an option. Only a file can be changed here. Secrets are never shown.`,
  examples: [
    ['SAVESTATE_KEY_FILE=~/agent.keys savestate key add', 'make a key file'],
    ['savestate key list', 'ids, names and ages'],
    ['savestate key rotate', 'use a new key for new data; "savestate copy" re-encrypts everything'],
    ['savestate key remove user-42 --dry-run', 'see how much that key protects'],
    ['savestate key remove user-42', 'make the data of a user or session unreadable'],
  ],
  run: (context, input) => input.action('key', ACTIONS)(context, input),
};

async function openSource(context: Context): Promise<KeySource> {
  const source = await findKeys(await context.place());
  if (source !== undefined) return source;
  throw new NotFoundError(
    'No keys are named here. Write "encryption: { keys: file:<path> }" into savestate.yaml, or set SAVESTATE_KEY_FILE; keep the file apart from the storage.',
  );
}

async function openFile(context: Context): Promise<KeyFile> {
  const { file, from } = await openSource(context);
  if (file !== undefined) return file;
  throw new InvalidInputError(
    `The keys come from ${from}, which cannot be changed here. Change them where they are kept.`,
  );
}

async function list(context: Context): Promise<undefined> {
  const { keys } = await openSource(context);
  const found = (await keys.read()).list();
  const rows = found.map(({ id, name, createdAt, isNewest, removedAt }) => {
    const used = isNewest ? 'writes' : 'reads';
    return [id, name, formatTime(createdAt), removedAt === undefined ? used : `removed ${formatTime(removedAt)}`];
  });
  return context.answer(found, () => formatRows(context.terminal, rows, { head: ['id', 'name', 'created', 'state'] }));
}

async function addKey(context: Context, input: CommandInput): Promise<undefined> {
  const file = await openFile(context);
  const name = input.word(1) ?? MAIN;
  const isNew = await file.create();
  const add = (before: Keyring): Keyring => {
    if (!hasKey(before, name)) return before.add(name);
    throw new ConflictError(`Key "${name}" already exists. Create a newer one with: savestate key rotate ${name}`);
  };
  const ring = await (isNew && name === MAIN ? file.read() : file.update(add));
  const text = isNew ? `The key file ${file.path} was made. Keep a copy, apart from the storage.\n` : '';
  return tell(context, ring, { name, text });
}

async function rotate(context: Context, input: CommandInput): Promise<undefined> {
  const file = await openFile(context);
  const name = input.word(1) ?? MAIN;
  const ring = await file.update((before) => {
    if (hasKey(before, name)) return before.add(name);
    throw new NotFoundError(`There is no key "${name}" to rotate. Create one with: savestate key add ${name}`);
  });
  return tell(context, ring, { name, text: 'Programs that run use it within a minute. ' });
}

const hasKey = (ring: Keyring, name: string): boolean => ring.list().some((key) => key.name === name && key.isNewest);

async function tell(
  context: Context,
  ring: Keyring,
  { name, text }: { name: string; text: string },
): Promise<undefined> {
  const key = ring.list().findLast((each) => each.name === name);
  return context.answer([key], () => `${text}What is written for "${name}" has the key ${key?.id} from now on.\n`);
}

async function remove(context: Context, input: CommandInput): Promise<undefined> {
  const which = input.need(1, 'which key: savestate key remove <id or name>');
  const file = await openFile(context);
  const before = await file.read();
  const after = before.remove(which); // says if there is none
  const kept = new Set(after.list().flatMap(({ id, removedAt }) => (removedAt === undefined ? [id] : [])));
  const doomed = before.list().filter(({ id, removedAt }) => removedAt === undefined && !kept.has(id));
  const what = `${formatCount(doomed.length, 'key')} (${doomed.map(({ id, name }) => `${id} "${name}"`).join(', ')})`;
  const loss = await tellLoss(context, { before, after, isPart: doomed.some(({ name }) => hasKey(after, name)) });
  const question = `This removes ${what}. ${loss} What was written with it cannot be read again, here or in any backup.`;
  if (!(await context.confirm(question, input))) {
    const said = input.flag('dryRun') ? `Would remove ${what}. ${loss} Nothing was removed.` : 'Nothing was removed.';
    return context.answer([], () => `${said}\n`);
  }
  await file.update((ring) => ring.remove(which));
  return context.answer(doomed, () => `${what} removed.\n`);
}

type Removal = { readonly before: Keyring; readonly after: Keyring; readonly isPart: boolean };

/**
 * What cannot be read any more with the keys after a removal, in the storage that is named here. If a name keeps a key, what is saved
 * with that one may be made of older content: only reading everything tells.
 */
async function tellLoss(context: Context, { before, after, isPart }: Removal): Promise<string> {
  const address = await context.address();
  if (address.kind === 'remote') return 'How much that concerns is not known here: the storage is on a server.';
  try {
    const storage = await openAddress(address, { create: false });
    return await closing(storage, async () => {
      const known = await countForgotten(storage, before, isPart);
      const lost = [...(await countForgotten(storage, after, isPart))]
        .map(([sessionId, count]): readonly [string, number] => [sessionId, count - (known.get(sessionId) ?? 0)])
        .filter(([, count]) => count > 0);
      const checkpoints = lost.reduce((sum, [, count]) => sum + count, 0);
      const found = `${formatCount(checkpoints, 'checkpoint')} of ${formatCount(lost.length, 'session')}`;
      return `In ${formatAddress(address)} that concerns ${found}.`;
    });
  } catch (error) {
    if (!(error instanceof SavestateError)) throw error;
    return `How much that concerns is not known: ${withoutAdvice(messageOf(error))}`;
  }
}

/** By session. */
async function countForgotten(storage: ChunkStorage, keys: Keyring, readData: boolean): Promise<Map<string, number>> {
  const { encrypted } = await import('../../../storage/encryption/encrypted.ts');
  const { CheckpointManager } = await import('../../../manager/checkpoint-manager.ts');
  const manager = new CheckpointManager({ storage: encrypted(storage, { keys }), unknownClasses: 'keep' });
  const { forgotten } = await manager.verify({ readData });
  return new Map(forgotten.map(({ sessionId, checkpoints }) => [sessionId, checkpoints]));
}
