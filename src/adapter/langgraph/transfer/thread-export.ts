import type { BaseCheckpointSaver, ChannelVersions } from '@langchain/langgraph-checkpoint';
import { InvalidInputError, messageOf, SavestateError, StorageError } from '../../../core/errors.ts';
import { configOf } from '../record/thread-session.ts';
import { SavestateSaver } from '../saver/savestate-saver.ts';
import { type ForkedVersions, findForkedVersions, INTERNAL_CHANNEL, partVersions } from './forked-versions.ts';
import { LossFinder } from './lossy-values.ts';
import { SaverSource } from './saver-source.ts';
import { keyOf, type PartFault, type SourceContent, type SourceEntry, type ThreadSource } from './thread-source.ts';
import {
  type StepOutcome,
  type ThreadTarget,
  ThreadTransfer,
  type TransferOptions,
  type TransferReport,
  type TransferStep,
  writeCalls,
} from './thread-transfer.ts';

/** How threads are exported. */
export type ExportOptions = TransferOptions & {
  /** Stores also what the target's serializer changes, and lists it as `lossy`; by default that is skipped. What would destroy a checkpoint is always. */
  readonly allowLossy?: boolean;
};

/**
 * Brings threads of ours into any other saver, under the same ids, so that graphs can go on there. What is there already is left
 * alone. What the other saver cannot keep is named in the report, with its path.
 */
export async function exportThreads(
  saver: SavestateSaver,
  target: BaseCheckpointSaver,
  options: ExportOptions = {},
): Promise<TransferReport> {
  if (!(saver instanceof SavestateSaver))
    throw new InvalidInputError('exportThreads brings threads out of a SavestateSaver.');
  const source = new SaverSource(saver);
  return new ThreadTransfer(source, new ExportTarget(source, target, options), options).run();
}

/** The official savers that store every checkpoint whole, so that equal versions of forks do no harm. */
const WHOLE_SAVERS: ReadonlySet<string> = new Set(['MemorySaver', 'InMemorySaver', 'SqliteSaver', 'MongoDBSaver']);

const MIXED_WRITES =
  'savers of LangGraph keep the writes of all forks of a checkpoint together, so this delta channel may show those of another fork';

const BYTES_ALONE = 'savers of LangGraph do not read back a write that is a Uint8Array by itself';

/** A part that the target does not keep. */
type PartLoss = PartFault & { readonly isFatal: boolean };

/** Puts what ours has into another saver, as a graph would. */
class ExportTarget implements ThreadTarget {
  readonly there: SaverSource;
  readonly #source: ThreadSource;
  readonly #saver: BaseCheckpointSaver;
  readonly #allowsLossy: boolean;
  #losses: LossFinder;
  /** The versions of what was stored of the thread: what a checkpoint has from its parent need not be stored again. */
  readonly #versions = new Map<string, ChannelVersions>();
  #forked: ReadonlyMap<string, ForkedVersions> = new Map();

  constructor(source: ThreadSource, saver: BaseCheckpointSaver, { allowLossy = false }: ExportOptions) {
    this.there = new SaverSource(saver);
    this.#source = source;
    this.#saver = saver;
    this.#allowsLossy = allowLossy;
    this.#losses = new LossFinder(saver.serde);
  }

  /** Where forks would get into each other's way, plans versions for them; that takes a look at all of the namespace. */
  async prepare(entries: readonly SourceEntry[]): Promise<void> {
    this.#losses = new LossFinder(this.#saver.serde);
    this.#versions.clear();
    this.#forked = new Map();
    if (WHOLE_SAVERS.has(this.#saver.constructor.name)) return;
    const namespaces = findForkedNamespaces(entries);
    const versioned: SourceEntry[] = [];
    for (const entry of entries) {
      if (!namespaces.has(entry.place.namespace)) continue;
      const { checkpoint } = await this.#source.readContent(entry);
      versioned.push({ ...entry, versions: checkpoint.channel_versions });
    }
    this.#forked = new Map([...findForkedVersions(versioned)].map(([entry, forked]) => [keyOf(entry), forked]));
  }

  /** Writes go first: a checkpoint that is there tells the next export that everything about it is. */
  async store({ entry, content, parent, siblings }: TransferStep): Promise<StepOutcome> {
    const losses = await this.#findLosses(entry, content);
    const refused = losses.find(({ isFatal }) => isFatal || !this.#allowsLossy);
    if (refused !== undefined) return { writes: 0, skipped: refused, lossy: [] };
    const { place, id, parentId } = entry;
    for (const { taskId, call } of writeCalls(content.writes))
      await this.#guard(() => this.#saver.putWrites(configOf(place, id), call, taskId));
    const checkpoint = partVersions(content.checkpoint, this.#forked.get(keyOf(entry)));
    const versions = checkpoint.channel_versions;
    // All of them, if it is not known what the parent has in the target.
    const before = parent === undefined ? undefined : this.#versions.get(keyOf(parent));
    const changed = Object.entries(versions).filter(([channel, version]) => before?.[channel] !== version);
    const newVersions = Object.fromEntries(changed);
    await this.#guard(() => this.#saver.put(configOf(place, parentId), checkpoint, content.metadata, newVersions));
    this.#versions.set(keyOf(entry), versions);
    const mixed = parent === undefined || siblings.length === 1 ? [] : await this.#findMixedWrites(content, parent);
    return { writes: content.writes.length, lossy: [...losses, ...mixed] };
  }

  async #findLosses({ place }: SourceEntry, content: SourceContent): Promise<PartLoss[]> {
    const found: PartLoss[] = [];
    const check = async (channel: string, value: unknown, name: string): Promise<void> => {
      const loss = await this.#losses.find(value, JSON.stringify([place.namespace, name]));
      if (loss !== undefined) found.push({ channel, ...loss });
    };
    for (const [channel, value] of Object.entries(content.checkpoint.channel_values))
      await check(channel, value, `value of ${channel}`);
    await check('metadata', content.metadata, 'metadata');
    for (const [, channel, value] of content.writes) {
      if (value instanceof Uint8Array) found.push({ channel, path: '$', reason: BYTES_ALONE, isFatal: false });
      else await check(channel, value, `write to ${channel}`);
    }
    return found;
  }

  /** Delta channels are made of the writes to their ancestors, and other savers keep those for all forks together. */
  async #findMixedWrites({ checkpoint }: SourceContent, parent: SourceEntry): Promise<PartFault[]> {
    const { writes } = await this.#source.readWrites(parent);
    const channels = new Set(writes.map(([, channel]) => channel));
    return [...channels]
      .filter((channel) => channel in checkpoint.channel_versions && !(channel in checkpoint.channel_values))
      .filter((channel) => !INTERNAL_CHANNEL.test(channel))
      .map((channel) => ({ channel, reason: MIXED_WRITES }));
  }

  async #guard<Result>(work: () => Promise<Result>): Promise<Result> {
    try {
      return await work();
    } catch (cause) {
      if (cause instanceof SavestateError) throw cause;
      const message = `The ${this.#saver.constructor.name} failed (${messageOf(cause)}). What it has stored is whole; export again for the rest.`;
      throw new StorageError(message, { cause });
    }
  }
}

function findForkedNamespaces(entries: readonly SourceEntry[]): ReadonlySet<string> {
  const parents = new Set<string>();
  const forked = new Set<string>();
  for (const { place, parentId } of entries) {
    const key = keyOf({ place, id: parentId });
    if (parents.has(key)) forked.add(place.namespace);
    parents.add(key);
  }
  return forked;
}
