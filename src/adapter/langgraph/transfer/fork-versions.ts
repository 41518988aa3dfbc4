import type { ChannelVersions, Checkpoint } from '@langchain/langgraph-checkpoint';
import type { SourceEntry } from './thread-source.ts';

/** A checkpoint with the versions of its channels. */
export type VersionedEntry = SourceEntry & { readonly versions: ChannelVersions };

/** New versions for those of a line of checkpoints, by channel and version. */
export type Renames = ReadonlyMap<string, string | number>;

/** So many forks of one checkpoint can be told apart; the numbers between two versions are exact at this step. */
const STEP = 1 / 1024;

/** The official savers that store every checkpoint whole, so that equal versions do no harm. */
const WHOLE_SAVERS: ReadonlySet<string> = new Set(['MemorySaver', 'InMemorySaver', 'SqliteSaver', 'MongoDBSaver']);

/** Whether a saver may store values by their versions, and so give one fork the values of another. */
export function mayShareVersions(saver: object): boolean {
  return !WHOLE_SAVERS.has(saver.constructor.name);
}

/**
 * Gives the channels of forks versions of their own. LangGraph counts up from the parent's, so two forks of one checkpoint have equal
 * versions for different values. The second gets one in between: versions are compared and counted up, and nothing else. Depends on
 * the order of the entries alone, so that the next export comes to the same.
 */
export function planVersions(parentsFirst: readonly VersionedEntry[]): ReadonlyMap<SourceEntry, Renames> {
  const byId = new Map<string, VersionedEntry>();
  const uses = new Map<string, number>();
  const plan = new Map<SourceEntry, Renames>();
  for (const entry of parentsFirst) {
    const { namespace } = entry.place;
    const parent = byId.get(JSON.stringify([namespace, entry.parentId]));
    const renames = new Map(parent === undefined ? [] : plan.get(parent));
    for (const [channel, version] of Object.entries(entry.versions)) {
      if (parent?.versions[channel] === version) continue;
      const key = JSON.stringify([namespace, channel, version]);
      const count = uses.get(key) ?? 0;
      uses.set(key, count + 1);
      if (count > 0 && typeof version === 'number') renames.set(nameOf(channel, version), version + count * STEP);
    }
    byId.set(JSON.stringify([namespace, entry.id]), entry);
    plan.set(entry, renames);
  }
  return plan;
}

function nameOf(channel: string, version: string | number): string {
  return JSON.stringify([channel, version]);
}

/** The checkpoint with its new versions. */
export function renameVersions(checkpoint: Checkpoint, renames: Renames): Checkpoint {
  if (renames.size === 0) return checkpoint;
  const rename = (versions: ChannelVersions): ChannelVersions =>
    Object.fromEntries(
      Object.entries(versions).map(([channel, version]) => [channel, renames.get(nameOf(channel, version)) ?? version]),
    );
  return {
    ...checkpoint,
    channel_versions: rename(checkpoint.channel_versions),
    versions_seen: Object.fromEntries(
      Object.entries(checkpoint.versions_seen).map(([node, seen]) => [node, rename(seen as ChannelVersions)]),
    ) as Checkpoint['versions_seen'],
  };
}
