import type { RunnableConfig } from '@langchain/core/runnables';
import type { BaseCheckpointSaver, CheckpointTuple } from '@langchain/langgraph-checkpoint';
import { CorruptError, messageOf, SavestateError, StorageError } from '../../../core/errors.ts';
import { configOf } from '../record/thread-session.ts';
import { parseContent, sortWrites } from './stored-value.ts';
import type {
  SourceContent,
  SourceEntry,
  SourceThread,
  SourceWrites,
  StrayWrites,
  ThreadSource,
} from './thread-source.ts';

type Listed = Pick<CheckpointTuple, 'config' | 'parentConfig'>;

/** How to list checkpoints; savers of ours can without reading their states. */
type Lister = { listMetadata?(config: RunnableConfig): AsyncIterable<Listed> };

/** Reads threads through the public methods of any saver. */
export class SaverSource implements ThreadSource {
  readonly name: string;
  readonly #saver: BaseCheckpointSaver;

  constructor(saver: BaseCheckpointSaver) {
    this.name = `The ${saver.constructor.name}`;
    this.#saver = saver;
  }

  async *#list(threadId: string | undefined): AsyncGenerator<Listed> {
    const config = threadId === undefined ? {} : { configurable: { thread_id: threadId } };
    try {
      yield* (this.#saver as Lister).listMetadata?.(config) ?? this.#saver.list(config);
    } catch (error) {
      throw this.#explain(error, 'list its checkpoints');
    }
  }

  /** Drivers and the network give their errors codes; what has none comes from decoding. */
  #explain(error: unknown, task: string): SavestateError {
    if (error instanceof SavestateError) return error;
    const message = `${this.name} cannot ${task}: ${messageOf(error)}`;
    const isOutside = error instanceof Error && 'code' in error;
    return isOutside ? new StorageError(message, { cause: error }) : new CorruptError(message, { cause: error });
  }

  async listThreads(asked: readonly (string | undefined)[] = [undefined]): Promise<readonly SourceThread[]> {
    const counts = new Map<string, number>();
    for (const thread of asked) {
      for await (const { config } of this.#list(thread)) {
        const threadId = String(config.configurable?.thread_id);
        counts.set(threadId, (counts.get(threadId) ?? 0) + 1);
      }
    }
    const threads = [...counts].map(([threadId, checkpoints]) => ({ threadId, checkpoints }));
    return threads.sort((a, b) => (a.threadId < b.threadId ? -1 : 1));
  }

  async readEntries(threadId: string): Promise<readonly SourceEntry[]> {
    const entries: SourceEntry[] = [];
    for await (const { config, parentConfig } of this.#list(threadId)) {
      const { checkpoint_ns: namespace = '', checkpoint_id: id } = config.configurable ?? {};
      const parentId = parentConfig?.configurable?.checkpoint_id;
      entries.push({ place: { threadId, namespace }, id, parentId: parentId === id ? undefined : parentId });
    }
    return entries;
  }

  /** No saver tells of them. */
  async findStrayWrites(): Promise<readonly StrayWrites[]> {
    return [];
  }

  async readContent(entry: SourceEntry): Promise<SourceContent> {
    const tuple = await this.#open(entry);
    return parseContent(tuple, sortWrites(tuple.pendingWrites ?? []));
  }

  async readWrites(entry: SourceEntry): Promise<SourceWrites> {
    return sortWrites((await this.#open(entry)).pendingWrites ?? []);
  }

  async #open({ place, id }: SourceEntry): Promise<CheckpointTuple> {
    const tuple = await this.#saver.getTuple(configOf(place, id)).catch((error: unknown) => {
      throw this.#explain(error, 'read the checkpoint');
    });
    if (tuple === undefined) throw new CorruptError('The checkpoint was deleted while its thread was read.');
    return tuple;
  }

  /** The saver stays open: it is the caller's. */
  async close(): Promise<void> {
    return undefined;
  }
}
