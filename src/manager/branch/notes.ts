import { InvalidInputError } from '../../core/errors.ts';
import { type CheckpointId, MAX_NAME_CHARS } from '../../core/record/id.ts';
import type { Ref, RefChange } from '../../storage/contract.ts';
import type { Engine } from '../engine/engine.ts';

/** What somebody wrote about a checkpoint after it was saved. */
export type CheckpointNote = {
  readonly checkpointId: CheckpointId;
  readonly text: string;
  readonly author?: string;
  readonly savedAtMs: number;
};

const PREFIX = 'note:';

/** Reads the notes among the marks of a session. */
export function readNotes(refs: readonly Ref[]): CheckpointNote[] {
  return refs
    .filter(({ kind, name }) => kind === 'mark' && name.startsWith(PREFIX))
    .map(({ name, target }) => ({ checkpointId: target as CheckpointId, ...parseNote(name) }));
}

/** Leaves a note about a checkpoint in place of the one before; an empty text removes it. Checkpoints do not change: it is a mark beside it. */
export async function setNote(
  engine: Engine,
  idOrPrefix: string,
  { text, author }: { readonly text: string; readonly author?: string | undefined },
): Promise<void> {
  const { id, sessionId } = await engine.open(idOrPrefix);
  const marks = await engine.repository.readRefs({ sessionId, kind: 'mark' });
  const old = marks.filter(({ name, target }) => name.startsWith(PREFIX) && target === id);
  const removed = old.map(({ kind, name, target }): RefChange => ({ kind, name, expect: target, target: null }));
  const name = formatNote(id, { text, author, savedAtMs: engine.ports.now() });
  if (name.length > MAX_NAME_CHARS)
    throw new InvalidInputError(`A note has at most about ${MAX_NAME_CHARS - 100} characters; this one is longer.`);
  const added: RefChange[] = text === '' ? [] : [{ kind: 'mark', name, expect: null, target: id }];
  if (removed.length + added.length === 0) return;
  await engine.storage.commit({ sessionId, requires: [id], refs: [...removed, ...added] });
}

/** The name of a mark with other words, cut where they became too long for one; a mark that is no note keeps its name. */
export function rewriteNote(
  { kind, name, target }: Pick<Ref, 'kind' | 'name' | 'target'>,
  rewrite: (said: string) => string,
): string {
  if (kind !== 'mark' || !name.startsWith(PREFIX)) return name;
  const { text, author, savedAtMs } = parseNote(name);
  for (let chars = MAX_NAME_CHARS; ; chars = Math.floor(chars / 2)) {
    const cut = (said: string) => rewrite(said).slice(0, chars);
    const written = formatNote(target, { text: cut(text), author: author && cut(author), savedAtMs });
    if (written.length <= MAX_NAME_CHARS) return written;
  }
}

function formatNote(
  id: string,
  { text, author, savedAtMs }: Pick<CheckpointNote, 'text' | 'savedAtMs'> & { readonly author?: string | undefined },
): string {
  return `${PREFIX}${id}:${JSON.stringify([text, author ?? null, savedAtMs])}`;
}

function parseNote(name: string): Omit<CheckpointNote, 'checkpointId'> {
  const json = name.slice(name.indexOf(':', PREFIX.length) + 1);
  try {
    const [text, author, savedAtMs] = JSON.parse(json) as [string, string | null, number];
    return { text, savedAtMs, ...(author !== null && { author }) };
  } catch {
    return { text: json, savedAtMs: 0 };
  }
}
