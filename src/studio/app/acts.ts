import { encodeSegment } from '../../server/contract/segment.ts';
import { ask, newKey, replies, server } from '../data/server.ts';
import { doKey } from '../frame/keys.ts';
import { type Address, go, sessionAddress } from '../frame/place.ts';
import type { IconName } from '../parts/icons.ts';

/** A line of the palette. */
export type Entry = {
  readonly key: string;
  readonly icon: IconName;
  readonly text: string;
  readonly more: string;
  /** Throws, or rejects, if that cannot be: the palette stays open and says why. */
  readonly act: () => unknown;
};

/** What can be done from here, as the command line calls it. What is about a session leads to the list of them where none is open. */
export function actsOf({ path, query }: Address): readonly Entry[] {
  const session = path[0] === 's' ? path[1] : undefined;
  const about = session === undefined ? actsOn : (key: ActKey) => actsIn(session, { path, query })[key];
  return ACTS.map(([key, icon, text, more]) => ({
    key: `a ${key}`,
    icon,
    text,
    more: session === undefined && SESSION_ACTS.has(key) ? 'choose a session first' : more,
    act: about(key),
  }));
}

const ACTS = [
  ['fork', 'fork', 'Fork at the selected step', 'f'],
  ['rewind', 'undo', 'Rewind to the selected step', 'a new branch; nothing is deleted'],
  ['compare', 'compare', 'Compare branches', 'c'],
  ['bisect', 'bisect', 'Bisect: find the first bad step', 'b'],
  ['tag', 'tag', 'Tag the selected step', 't'],
  ['export', 'export', 'Export the session', 'a file'],
  ['prune', 'trash', 'Prune old checkpoints', 'shows first what would go'],
  ['verify', 'shield', 'Verify the storage', 'storage'],
] as const satisfies readonly (readonly [string, IconName, string, string])[];

type ActKey = (typeof ACTS)[number][0];

const SESSION_ACTS: ReadonlySet<ActKey> = new Set(['fork', 'rewind', 'compare', 'bisect', 'tag', 'export']);

function actsOn(key: ActKey): () => void {
  return () => go(SESSION_ACTS.has(key) ? '/s' : '/storage');
}

function actsIn(session: string, { path, query }: Address): Readonly<Record<ActKey, () => unknown>> {
  const at = query.get('at') ?? undefined;
  const branch = query.get('branch') ?? undefined;
  // What a key does on the page of the session, once the palette no longer covers it.
  const onPage = (key: string) =>
    path.length > 2 ? go(sessionAddress(session, { at })) : setTimeout(() => doKey(key));
  return {
    fork: () => go(sessionAddress(session, { page: 'fork', at })),
    rewind: () => rewind(session, at),
    compare: () => go(sessionAddress(session, { page: 'compare', a: branch })),
    bisect: () => onPage('b'),
    tag: () => onPage('t'),
    export: () => {
      const href = server.urlOf('GET /v1/sessions/{session}/export', { params: { session } });
      Object.assign(document.createElement('a'), { href, download: `${session}.ndjson` }).click();
    },
    prune: actsOn('prune'),
    verify: actsOn('verify'),
  };
}

async function rewind(session: string, checkpoint: string | undefined): Promise<void> {
  if (checkpoint === undefined) throw new Error('Select a step first: the newest one is where the session is already.');
  const { branch } = await ask('POST /v1/sessions/{session}/rewind', {
    params: { session },
    body: { checkpoint },
    idempotencyKey: newKey(),
  });
  replies.refresh((url) => url.includes(`/v1/sessions/${encodeSegment(session)}`));
  go(sessionAddress(session, { branch }));
}
