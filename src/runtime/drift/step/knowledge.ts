import { z } from 'zod';
import { RecentSet, recentSetState } from './recent-set.ts';
import { hashText, learn, novelty, type ReadText, sketchText, type TextSketch } from './text-sketch.ts';

/** A text, and what of it was new to the run. */
type KnownText = {
  readonly sketch: TextSketch;
  /** The fraction of its runs of words that nobody had said before, 0 to 1. */
  readonly novelty: number;
  /** How many of its words were new: in a result to everyone, in anything else to those who speak. */
  readonly newWords: number;
};

/** Runs of words that are remembered: about a hundred pages' worth. */
const RUN_SLOTS = 8192;
const WORD_SLOTS = 8192;
const SPOKEN_SLOTS = 4096;
const TARGET_SLOTS = 2048;
/** Longer texts, and texts with spaces in them, are contents rather than names. */
const MAX_TARGET_CHARS = 200;

/** The plain data of what is known. */
export const knowledgeState = z.object({
  runs: recentSetState(RUN_SLOTS),
  words: recentSetState(WORD_SLOTS),
  spoken: recentSetState(SPOKEN_SLOTS),
  targets: recentSetState(TARGET_SLOTS),
});
type KnowledgeState = z.infer<typeof knowledgeState>;

/** What has been said and seen in a run, by anyone; the older, the likelier it is forgotten. */
export class Knowledge {
  readonly #runs: RecentSet;
  readonly #words: RecentSet;
  /** Words of tasks, messages and calls: what is said, not what is found. */
  readonly #spoken: RecentSet;
  /** What calls named, by tool. */
  readonly #targets: RecentSet;

  constructor(state?: KnowledgeState) {
    this.#runs = new RecentSet(RUN_SLOTS, state?.runs);
    this.#words = new RecentSet(WORD_SLOTS, state?.words);
    this.#spoken = new RecentSet(SPOKEN_SLOTS, state?.spoken);
    this.#targets = new RecentSet(TARGET_SLOTS, state?.targets);
  }

  /** Takes in what was said. */
  hear(text: string): KnownText {
    return this.#take(sketchText(text, { known: this.#spoken, also: this.#words }));
  }

  /** Takes in what a tool returned. */
  find(text: string): KnownText {
    return this.#take(sketchText(text, { known: this.#words }));
  }

  /** Takes in what the parts of a call's input name (a file, a line, a key); answers whether some of it was never named to this tool. */
  learnTargets(tool: string, leaves: readonly string[]): boolean {
    let isNew = false;
    for (const leaf of leaves) {
      if (leaf === '' || leaf.length > MAX_TARGET_CHARS || /\s/.test(leaf)) continue;
      const target = hashText(`${tool} ${leaf}`);
      isNew ||= !this.#targets.has(target);
      this.#targets.add(target);
    }
    return isNew;
  }

  snapshot(): KnowledgeState {
    return {
      runs: this.#runs.snapshot(),
      words: this.#words.snapshot(),
      spoken: this.#spoken.snapshot(),
      targets: this.#targets.snapshot(),
    };
  }

  #take({ sketch, runs, newWords }: ReadText): KnownText {
    const fresh = novelty(runs, this.#runs);
    learn(runs, this.#runs);
    return { sketch, novelty: fresh, newWords };
  }
}
