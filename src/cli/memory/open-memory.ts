import { existsSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { withoutUndefined } from '../../core/defined.ts';
import { hasErrorCode, NotFoundError } from '../../core/errors.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { ViewOptions } from '../../memory/log/views.ts';
import { Memory, type MemoryOptions } from '../../memory/memory.ts';
import type { MemoryScope } from '../../memory/storage/memory-record.ts';
import { DEFAULT_PATH } from '../../memory/storage/sqlite/sqlite-memory-storage.ts';
import { isEmptyFile } from '../../storage/open/address.ts';
import { type ViewedMemory, viewMemory } from '../../view/record-output.ts';
import { closing } from '../base/closing.ts';
import type { CommandInput, Context } from '../base/command.ts';
import { addressExists, findWithheld, type RemoteAddress, withheldError } from '../place/address.ts';
import { resolveRevision } from '../revision/resolve-revision.ts';

/** How a memory is opened. */
type OpenMemoryOptions = {
  /** A path or address that was named. */
  readonly named?: string | undefined;
  /** With it memory follows branches. */
  readonly manager?: CheckpointManager | undefined;
  /** Makes the file if there is none; looking at one must not. */
  readonly isCreated?: boolean;
};

/** Opens the memory that `--memory`, SAVESTATE_MEMORY or savestate.yaml names, else `memories/history.db` here. */
export async function openMemory(
  context: Context,
  { named, manager, isCreated = false }: OpenMemoryOptions,
): Promise<Memory> {
  const place = await findPlace(context, named);
  const more = manager === undefined ? {} : { manager };
  if (/^postgres(ql)?:\/\//.test(place))
    return openPostgres(context, { connectionString: place, isNamed: named !== undefined }, more);
  if (!isCreated && (!existsSync(place) || isEmptyFile(place)))
    throw new NotFoundError(
      `${existsSync(place) ? `The file ${place} is empty: there is no memory in it` : `There is no memory at ${place}`}. Name one with --memory, or in savestate.yaml ("memory: memories/history.db"); "savestate run" then fills it.`,
      { details: { kind: 'storage', path: place } },
    );
  return new Memory({ path: place, ...more });
}

/** The memory that was named, or that is there; undefined if there is none. */
export async function findMemory(
  context: Context,
  options: OpenMemoryOptions,
  onNone?: (error: unknown) => void,
): Promise<Memory | undefined> {
  return openMemory(context, options).catch((error: unknown) => {
    if (options.named !== undefined || !hasErrorCode(error, 'NOT_FOUND')) throw error;
    onNone?.(error);
    return undefined;
  });
}

/** The same for a command that deletes sessions: memory notes what was seen of them. That of a server is where the server is. */
export async function findFollowing(context: Context, options: OpenMemoryOptions): Promise<Memory | undefined> {
  const isRemote = options.named === undefined && (await context.address()).kind === 'remote';
  return isRemote ? undefined : findMemory(context, options);
}

async function openPostgres(
  context: Context,
  { connectionString, isNamed }: { readonly connectionString: string; readonly isNamed: boolean },
  more: Pick<MemoryOptions, 'manager'>,
): Promise<Memory> {
  const { PostgresMemoryStorage } = await import('../../memory/storage/postgres/postgres-memory-storage.ts');
  const { globals, env } = context;
  const { config, path } = (await context.config()) ?? {};
  const withheldFrom = findWithheld({ url: connectionString, env, writtenIn: isNamed ? undefined : path });
  if (withheldFrom !== undefined) throw withheldError(withheldFrom, new URL(connectionString).host);
  const tenant = globals.tenant ?? env.SAVESTATE_TENANT ?? config?.tenant ?? 'default';
  return new Memory({ storage: new PostgresMemoryStorage({ connectionString, tenant }), ...more });
}

/** What a file says about paths is relative to it. */
async function findPlace(context: Context, named: string | undefined): Promise<string> {
  const found = await context.config();
  const here = named ?? (context.env.SAVESTATE_MEMORY || undefined);
  const [text, folder] =
    here === undefined && found?.config.memory !== undefined
      ? [found.config.memory, dirname(found.path)]
      : [here ?? DEFAULT_PATH, context.folder];
  return text.includes('://') ? text : resolve(folder, text);
}

/** Whose memories a command is about, and from where it looks. */
export type MemoryView = {
  /** What was named, else the user that `run` and `repl` would talk with, which is said. */
  readonly scope: () => MemoryScope;
  readonly named: MemoryScope;
  readonly from: ViewOptions;
};

/** Opens the memory for a command and closes it afterwards. */
export async function useMemory<Result>(
  context: Context,
  input: CommandInput,
  work: (memory: ViewedMemory, view: MemoryView) => Promise<Result>,
): Promise<Result> {
  const asOf = input.text('asOf');
  const named = withoutUndefined({ userId: input.text('user'), agentId: input.text('agent') });
  // Memory follows branches if there are checkpoints to follow; it may also be used without any.
  const address = await context.address();
  const isNeeded = asOf !== undefined || addressExists(address);
  const manager = isNeeded ? (await context.open()).manager : undefined;
  const place = input.text('memory');
  const isRemote = address.kind === 'remote' && place === undefined;
  const opened = isRemote
    ? await openRemoteMemory(address)
    : viewMemory(await openMemory(context, { named: place, manager }));
  return closing(opened, async (memory) => {
    const from = asOf === undefined ? {} : { asOf: (await resolveRevision(await context.open(), asOf)).id };
    return work(memory, { scope: () => findScope(context, named), named, from });
  });
}

async function openRemoteMemory(address: RemoteAddress): Promise<ViewedMemory> {
  const [{ connect }, { viewRemoteMemory }] = await Promise.all([
    import('../place/remote.ts'),
    import('./remote-memory.ts'),
  ]);
  return viewRemoteMemory(connect(address));
}

function findScope(context: Context, named: MemoryScope): MemoryScope {
  if (Object.keys(named).length > 0) return named;
  const userId = context.user;
  context.say(`This is the memory of "${userId}"; --user <id> or --agent <id> shows another.`);
  return { userId };
}
