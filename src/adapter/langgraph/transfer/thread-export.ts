import type { BaseCheckpointSaver, ChannelVersions } from '@langchain/langgraph-checkpoint';
import { InvalidInputError, messageOf, SavestateError, StorageError } from '../../../core/errors.ts';
import type { ChunkStorage } from '../../../storage/contract.ts';
import { configOf } from '../record/thread-session.ts';
import { SavestateSaver } from '../saver/savestate-saver.ts';
import { mayShareVersions, planVersions, type Renames, renameVersions, type VersionedEntry } from './fork-versions.ts';
import { LossFinder } from './lossy-values.ts';
import { SaverSource } from './saver-source.ts';
import { INTERNAL_CHANNEL } from './shared-versions.ts';
import type { PartFault, SourceContent, SourceEntry, ThreadSource } from './thread-source.ts';
import {
  type Family,
  keyOf,
  type StepOutcome,
  type ThreadTarget,
  ThreadTransfer,
  type TransferStep,
} from './thread-transfer.ts';
import { notePart, type TransferNote, type TransferOptions, type TransferReport } from './transfer-report.ts';
import { writesByTask } from './writes-by-task.ts';

/** How threads are exported. */
export type ExportOptions = TransferOptions & {
  /** Stores also what the target's serializer changes, and lists it as `lossy`; by default that is skipped. What would destroy a checkpoint is always. */
  readonly allowLossy?: boolean;
  /** Where the saver keeps its threads, so that the report can say how much that takes up. */
  readonly storage?: Pick<ChunkStorage, 'stats'>;
  /** Tells what the target takes up. */
  readonly measureTarget?: () => Promise<number>;
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
  const { storage } = options;
  const source = new SaverSource(saver, async () => (await storage?.stats())?.bytes);
  return new ThreadTransfer(source, new ExportTarget(source, target, options), options).run();
}

/** A part that the target does not keep. */
type PartLoss = PartFault & { readonly isFatal: boolean };

/** Puts what ours has into another saver, as a graph would. */
class ExportTarget implements ThreadTarget {
  readonly #source: ThreadSource;
  readonly #saver: BaseCheckpointSaver;
  readonly #options: ExportOptions;
  #losses: LossFinder;
  /** The versions of what was stored of the thread: what a checkpoint has from its parent need not be stored again. */
  readonly #versions = new Map<string, ChannelVersions>();
  #renames: ReadonlyMap<SourceEntry, Renames> = new Map();

  constructor(source: ThreadSource, saver: BaseCheckpointSaver, options: ExportOptions) {
    this.#source = source;
    this.#saver = saver;
    this.#options = options;
    this.#losses = new LossFinder(saver.serde);
  }

  async findStored(threadId: string): Promise<ReadonlySet<string>> {
    this.#losses = new LossFinder(this.#saver.serde);
    this.#versions.clear();
    const keys = new Set<string>();
    const config = { configurable: { thread_id: threadId } };
    await this.#guard(async () => {
      for await (const { config: found } of this.#saver.list(config)) {
        const { checkpoint_ns: namespace = '', checkpoint_id: id } = found.configurable ?? {};
        keys.add(keyOf({ place: { threadId, namespace }, id }));
      }
    });
    return keys;
  }

  /** Where forks would get into each other's way, plans versions for them; that takes a look at all of the namespace. */
  async prepare(entries: readonly SourceEntry[]): Promise<void> {
    this.#renames = new Map();
    if (!mayShareVersions(this.#saver)) return;
    const forked = findForkedNamespaces(entries);
    const versioned: (VersionedEntry & { readonly entry: SourceEntry })[] = [];
    for (const entry of entries) {
      if (!forked.has(entry.place.namespace)) continue;
      const { checkpoint } = await this.#source.readContent(entry);
      versioned.push({ ...entry, entry, versions: checkpoint.channel_versions });
    }
    const plan = planVersions(versioned);
    this.#renames = new Map(versioned.map((one) => [one.entry, plan.get(one) ?? new Map()]));
  }

  /** Writes go first: a checkpoint that is there tells the next export that everything about it is. */
  async store({ entry, content, family }: TransferStep): Promise<StepOutcome> {
    const parentVersions = family.parent === undefined ? undefined : this.#versions.get(keyOf(family.parent));
    const losses = await this.#findLosses(entry, content);
    const refused = losses.find(({ isFatal }) => isFatal || this.#options.allowLossy !== true);
    if (refused !== undefined) return { writes: 0, skipped: notePart(entry, refused), lossy: [] };
    const config = configOf(entry.place, entry.id);
    for (const { taskId, calls } of writesByTask(content.writes))
      for (const call of calls) await this.#guard(() => this.#saver.putWrites(config, call, taskId));
    const { metadata } = content;
    const checkpoint = renameVersions(content.checkpoint, this.#renames.get(entry) ?? new Map());
    const newVersions = changedVersions(checkpoint.channel_versions, parentVersions);
    await this.#guard(() => this.#saver.put(parentConfig(entry), checkpoint, metadata, newVersions));
    this.#versions.set(keyOf(entry), checkpoint.channel_versions);
    const faults = [...losses, ...(await this.#findMixedWrites(content, family))];
    return { writes: content.writes.length, lossy: faults.map((fault) => notePart(entry, fault)) };
  }

  async examine({ entry, content, family }: TransferStep): Promise<readonly TransferNote[]> {
    const faults = [...(await this.#findLosses(entry, content)), ...(await this.#findMixedWrites(content, family))];
    return faults.map((fault) => notePart(entry, fault));
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
  async #findMixedWrites({ checkpoint }: SourceContent, { parent, siblings }: Family): Promise<PartFault[]> {
    if (parent === undefined || siblings === 1) return [];
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
    } catch (error) {
      if (error instanceof SavestateError) throw error;
      const message = messageOf(error);
      const name = this.#saver.constructor.name;
      throw new StorageError(
        `The ${name} failed (${message}). What it has stored is whole; export again for the rest.`,
        {
          cause: error,
        },
      );
    }
  }

  async measure(): Promise<number | undefined> {
    return this.#options.measureTarget?.();
  }
}

const MIXED_WRITES =
  'savers of LangGraph keep the writes of all forks of a checkpoint together, so this delta channel may show those of another fork';

const BYTES_ALONE = 'savers of LangGraph do not read back a write that is a Uint8Array by itself';

function parentConfig({ place, parentId }: SourceEntry) {
  return {
    configurable: {
      thread_id: place.threadId,
      checkpoint_ns: place.namespace,
      ...(parentId !== undefined && { checkpoint_id: parentId }),
    },
  };
}

function findForkedNamespaces(entries: readonly SourceEntry[]): ReadonlySet<string> {
  const parents = new Set<string>();
  const forked = new Set<string>();
  for (const { place, parentId } of entries) {
    const key = JSON.stringify([place.namespace, parentId]);
    if (parents.has(key)) forked.add(place.namespace);
    parents.add(key);
  }
  return forked;
}

/** All versions, if it is not known what the parent has in the target. */
function changedVersions(versions: ChannelVersions, before: ChannelVersions | undefined): ChannelVersions {
  const changed = Object.entries(versions).filter(([channel, version]) => before?.[channel] !== version);
  return Object.fromEntries(changed);
}
