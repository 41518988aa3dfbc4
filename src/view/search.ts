import { formatPath, type PathStep } from '../core/path.ts';
import { escapePattern } from '../core/pattern/escape-pattern.ts';
import { LinearPattern } from '../core/pattern/linear-pattern.ts';
import type { Checkpoint } from '../core/record/checkpoint.ts';
import type { CheckpointManager } from '../manager/checkpoint-manager.ts';
import type { Watch } from './history.ts';
import { type StateView, viewOf } from './state-view.ts';

type Found = { readonly path: string; readonly text: string };

/** A text that fits, and the checkpoint that brought it. */
export type Match = Found & { readonly checkpointId: string; readonly sequence: number; readonly savedAt: string };

type Search = {
  readonly pattern: LinearPattern;
  /** What the first checkpoint holds is not new. */
  readonly hasStart: boolean;
  readonly watch: Watch;
};

type Wanted = { readonly text: string; readonly isPlain: boolean; readonly ignoresCase: boolean };

/** What is searched for: a regular expression, or plain text. */
export function patternOf({ text, isPlain, ignoresCase }: Wanted): LinearPattern {
  const source = isPlain ? escapePattern(text) : text;
  return new LinearPattern({ source, flags: ignoresCase ? 'iu' : 'u' }, 'pattern');
}

/** What fits in the state of one checkpoint; a message once. */
export async function* searchState(
  manager: CheckpointManager,
  checkpoint: Checkpoint,
  pattern: LinearPattern,
): AsyncGenerator<Match> {
  const state = await manager.load(checkpoint.id);
  const telling = new Telling<Match>(viewOf(state));
  yield* telling.tell(toMatches(checkpoint, [{ path: '$', newValue: state }], pattern));
  yield* telling.rest();
}

/** Where a match came into a history, oldest first: what was there already is not told again, and a message once. */
export async function* searchHistory(
  manager: CheckpointManager,
  checkpoints: readonly Checkpoint[],
  { pattern, hasStart, watch }: Search,
): AsyncGenerator<Match> {
  const [first] = checkpoints;
  const telling = new Telling<Match>(viewOf(first === undefined ? undefined : await manager.load(first.id)));
  for await (const [at, checkpoint] of watch(checkpoints.entries(), checkpoints.length)) {
    if (at === 0 && hasStart) continue;
    yield* telling.tell(toMatches(checkpoint, await readNew(manager, checkpoint, checkpoints[at - 1]), pattern));
  }
  yield* telling.rest();
}

type New = { readonly path: string; readonly newValue: unknown };

/** Only what a checkpoint added or changed is looked at, so a long history costs what is in it once. */
async function readNew(manager: CheckpointManager, { id }: Checkpoint, before: Checkpoint | undefined): Promise<New[]> {
  if (before === undefined) return [{ path: '$', newValue: await manager.load(id) }];
  const { added, modified } = await manager.compare(before.id, id);
  return [...modified, ...added];
}

function toMatches({ id, sequence, timestamp }: Checkpoint, news: readonly New[], pattern: LinearPattern): Match[] {
  const savedAt = timestamp.toISOString();
  return news.flatMap(({ path: base, newValue }) =>
    [...findTexts(newValue, pattern)].map(({ path, text }) => ({
      checkpointId: id,
      sequence,
      savedAt,
      path: base + path.slice(1),
      text,
    })),
  );
}

/** Every text below a value that fits, with its path. */
export function* findTexts(value: unknown, pattern: LinearPattern, path: readonly PathStep[] = []): Generator<Found> {
  if (typeof value === 'string') {
    if (pattern.test(value)) yield { path: formatPath(path), text: value };
    return;
  }
  if (typeof value !== 'object' || value === null) return;
  for (const [key, child] of entriesOf(value)) yield* findTexts(child, pattern, [...path, key]);
}

function entriesOf(value: object): Iterable<[PathStep, unknown]> {
  if (Array.isArray(value) || value instanceof Set) return [...value].entries();
  if (value instanceof Map) return [...value].map(([key, child]): [PathStep, unknown] => [String(key), child]);
  return Object.entries(value);
}

/** A match with some of what is around it. */
export function excerptOf(text: string, pattern: LinearPattern, chars: number): string {
  if (text.length <= chars) return text;
  const from = Math.max(0, (pattern.find(text)?.start ?? 0) - Math.floor(chars / 4));
  return `${from > 0 ? '…' : ''}${text.slice(from, from + chars)}${from + chars < text.length ? '…' : ''}`;
}

type FoundText = { readonly path: string; readonly text: string };

/** Tells each message once: states hold copies of it, and it has several fields. */
export class Telling<Found extends FoundText> {
  readonly #view: StateView;
  readonly #told = new Set<string>();
  /** Copies of what was not said yet: a reply is known to its speaker before it is appended. */
  readonly #held = new Map<string, Found>();

  constructor(view: StateView) {
    this.#view = view;
  }

  /** What is to be told of the places that one checkpoint brought. */
  tell(places: readonly Found[]): Found[] {
    const { transcript } = this.#view;
    if (transcript === undefined) return [...places];
    const said = places.filter(({ path }) => path.startsWith(`${transcript}[`));
    for (const { text } of said) {
      this.#told.add(text);
      this.#held.delete(text);
    }
    const others = places.filter((place) => !said.includes(place) && this.#isNew(place));
    return [...said.filter((place, at) => isFirstOf(place, said.slice(0, at), transcript)), ...others];
  }

  /** What only copies had until the end. */
  rest(): Found[] {
    return [...this.#held.values()];
  }

  #isNew(place: Found): boolean {
    const { isFolded, isCopy } = this.#view;
    const { path, text } = place;
    if (this.#told.has(text)) return false;
    if (isCopy(path) && !this.#held.has(text)) this.#held.set(text, place);
    if (isCopy(path) || isFolded(path)) return false;
    this.#told.add(text);
    return true;
  }
}

/** Whether no field of the same message was told. */
function isFirstOf({ path }: FoundText, before: readonly FoundText[], transcript: string): boolean {
  const message = path.slice(0, path.indexOf(']', transcript.length) + 1);
  return !before.some((other) => other.path.startsWith(message));
}
