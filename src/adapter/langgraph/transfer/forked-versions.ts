import type { ChannelVersions, Checkpoint } from '@langchain/langgraph-checkpoint';
import { keyOf, type PartFault, type SourceEntry } from './thread-source.ts';

/**
 * Versions, by channel, that another checkpoint had before for another value, and how many had: of a checkpoint and its ancestors.
 * LangGraph counts versions up from the parent's, so two forks of one checkpoint give theirs the same.
 */
export type ForkedVersions = ReadonlyMap<string, number>;

/** So many forks of one checkpoint can be told apart; the numbers between two versions are exact at this step. */
const STEP = 1 / 1024;

const SHARED =
  'two checkpoints gave the channel the same version, of which the PostgresSaver keeps one value only: this may be that of the other';

/** Channels that LangGraph steers by; their values say nothing. */
export const INTERNAL_CHANNEL = /^(branch:|__)/;

/** Finds what forks share. Depends on the order of the entries alone, so that the next transfer comes to the same. */
export function findForkedVersions(parentsFirst: readonly SourceEntry[]): ReadonlyMap<SourceEntry, ForkedVersions> {
  const byKey = new Map<string, SourceEntry>();
  const uses = new Map<string, number>();
  const found = new Map<SourceEntry, ForkedVersions>();
  for (const entry of parentsFirst) {
    const { place, parentId, versions = {} } = entry;
    const parent = byKey.get(keyOf({ place, id: parentId }));
    const forked = new Map(parent && found.get(parent));
    for (const [channel, version] of Object.entries(versions)) {
      if (parent?.versions?.[channel] === version) continue;
      const use = JSON.stringify([place.namespace, channel, version]);
      const count = uses.get(use) ?? 0;
      uses.set(use, count + 1);
      if (count > 0) forked.set(nameOf(channel, version), count);
    }
    byKey.set(keyOf(entry), entry);
    found.set(entry, forked);
  }
  return found;
}

function nameOf(channel: string, version: string | number): string {
  return JSON.stringify([channel, version]);
}

/** The channels whose values may be those of another fork. */
export function findDoubts({ versions = {} }: SourceEntry, forked: ForkedVersions | undefined): PartFault[] {
  return Object.entries(versions)
    .filter(([channel, version]) => forked?.has(nameOf(channel, version)) && !INTERNAL_CHANNEL.test(channel))
    .map(([channel]) => ({ channel, reason: SHARED }));
}

/** The checkpoint with versions of its own: numbers in between, because versions are compared and counted up, and nothing else. */
export function partVersions(checkpoint: Checkpoint, forked: ForkedVersions | undefined): Checkpoint {
  if (forked === undefined || forked.size === 0) return checkpoint;
  const part = (versions: ChannelVersions): ChannelVersions =>
    Object.fromEntries(
      Object.entries(versions).map(([channel, version]) => {
        const count = forked.get(nameOf(channel, version));
        return [channel, count !== undefined && typeof version === 'number' ? version + count * STEP : version];
      }),
    );
  const seen = Object.entries(checkpoint.versions_seen).map(([node, versions]) => [
    node,
    part(versions as ChannelVersions),
  ]);
  return {
    ...checkpoint,
    channel_versions: part(checkpoint.channel_versions),
    versions_seen: Object.fromEntries(seen) as Checkpoint['versions_seen'],
  };
}
