import type { StateView } from './state-view.ts';

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
