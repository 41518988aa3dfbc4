import type { PartFault, SourceEntry } from './thread-source.ts';

/** A checkpoint with the versions of its channels. */
export type VersionedEntry = SourceEntry & { readonly versions: { readonly [channel: string]: string } };

const REASON =
  'two checkpoints gave the channel the same version, of which the PostgresSaver keeps one value only: this may be that of the other';

/** Channels that LangGraph steers by; their values say nothing. */
export const INTERNAL_CHANNEL = /^(branch:|__)/;

/**
 * Finds, for each entry, the channels whose values may be those of another fork: LangGraph counts versions up from the parent's, so two
 * forks of one checkpoint give theirs the same, and the PostgresSaver stores only the first value of a version.
 */
export function findSharedVersions(entries: readonly VersionedEntry[]): (readonly PartFault[])[] {
  const byId = new Map(entries.map((entry) => [JSON.stringify([entry.place.namespace, entry.id]), entry]));
  const firsts = new Map<string, VersionedEntry>();
  /** Entries and their channels whose values are in doubt; those that inherit one are in doubt too. */
  const doubted = new Map<VersionedEntry, ReadonlySet<string>>();
  for (const entry of entries.toSorted((a, b) => (a.id < b.id ? -1 : 1))) {
    const { namespace } = entry.place;
    const parent = byId.get(JSON.stringify([namespace, entry.parentId]));
    const channels = Object.entries(entry.versions).flatMap(([channel, version]) => {
      if (INTERNAL_CHANNEL.test(channel)) return [];
      if (parent?.versions[channel] === version) return doubted.get(parent)?.has(channel) ? [channel] : [];
      const key = JSON.stringify([namespace, channel, version]);
      if (firsts.has(key)) return [channel];
      firsts.set(key, entry);
      return [];
    });
    doubted.set(entry, new Set(channels));
  }
  return entries.map((entry) => [...(doubted.get(entry) ?? [])].map((channel) => ({ channel, reason: REASON })));
}
