import type { RunnableConfig } from '@langchain/core/runnables';
import {
  type ChannelVersions,
  type Checkpoint,
  type CheckpointMetadata,
  type CheckpointTuple,
  MemorySaver,
} from '@langchain/langgraph-checkpoint';

/** Stores values as the official PostgresSaver does: by channel and version, and of each version the first value only. */
export class VersionedSaver extends MemorySaver {
  readonly #values = new Map<string, unknown>();
  /** Values that were not stored, because there was one of the same version. */
  dropped = 0;

  override async put(
    ...args: [RunnableConfig, Checkpoint, CheckpointMetadata, ChannelVersions?]
  ): Promise<RunnableConfig> {
    const [config, checkpoint, metadata, newVersions = {}] = args;
    for (const [channel, version] of Object.entries(newVersions)) {
      const key = keyOf(config, channel, version);
      if (this.#values.has(key)) this.dropped++;
      else if (channel in checkpoint.channel_values) this.#values.set(key, checkpoint.channel_values[channel]);
    }
    return super.put(config, { ...checkpoint, channel_values: {} }, metadata);
  }

  override async getTuple(config: RunnableConfig): Promise<CheckpointTuple | undefined> {
    const tuple = await super.getTuple(config);
    return tuple && this.#fill(tuple);
  }

  override async *list(...args: Parameters<MemorySaver['list']>): AsyncGenerator<CheckpointTuple> {
    for await (const tuple of super.list(...args)) yield this.#fill(tuple);
  }

  #fill(tuple: CheckpointTuple): CheckpointTuple {
    const { checkpoint, config } = tuple;
    for (const [channel, version] of Object.entries(checkpoint.channel_versions)) {
      const key = keyOf(config, channel, version);
      if (this.#values.has(key)) checkpoint.channel_values[channel] = this.#values.get(key);
    }
    return tuple;
  }
}

function keyOf({ configurable }: RunnableConfig, channel: string, version: number | string): string {
  return JSON.stringify([configurable?.thread_id, configurable?.checkpoint_ns ?? '', channel, String(version)]);
}
