import { escapePattern } from '../../core/pattern/escape-pattern.ts';
import { asksFor } from '../log/slots.ts';
import { type DateRange, datesIn } from '../text/dates.ts';
import { termsOf, wordsOf } from '../text/terms.ts';

/** A question, taken apart for ranking. */
export type ParsedQuery = {
  /** What is asked about, without the names of subjects: those would match whoever is spoken to. */
  readonly terms: readonly string[];
  /** The subjects the question names. */
  readonly subjects: ReadonlySet<string>;
  readonly dates: readonly DateRange[];
  /** Whether it asks for what is in a slot. */
  readonly asksFor: (slot: string) => boolean;
  /** Whether it may be about this subject: one that it names, or if it names none, the one who asks. */
  readonly isAbout: (subject: string) => boolean;
  /** The question as its subject would ask it, which is how memories are worded. */
  readonly firstPerson: string;
};

const IS_ABOUT_SPEAKER = /\bI\b|\b(?:[Mm]y|[Mm]e|[Mm]ine|[Mm]yself)\b/;

/** More terms than this do not make a question clearer. */
const MAX_TERMS = 96;

type QueryContext = {
  readonly subjects: Iterable<string>;
  /** Whom "I" and "my" mean. */
  readonly speaker: string | undefined;
  readonly nowMs: number;
};

/** Takes a question apart: names of known subjects become a field, the rest becomes terms. */
export function parseQuery(text: string, { subjects, speaker, nowMs }: QueryContext): ParsedQuery {
  const words = wordsOf(text);
  const named = new Set([...subjects].filter((subject) => isNamed(subject, words)));
  if (speaker !== undefined && IS_ABOUT_SPEAKER.test(text)) named.add(speaker);
  const names = new Set([...named].flatMap(termsOf));
  const terms = [...new Set(termsOf(text))].filter((term) => !names.has(term));
  return {
    terms: terms.slice(0, MAX_TERMS),
    subjects: named,
    dates: datesIn(text, nowMs),
    asksFor: (slot) => asksFor(slot, text),
    isAbout: (subject) => (named.size === 0 ? subject === speaker : named.has(subject)),
    get firstPerson() {
      return toFirstPerson(text, named); // only vectors need it
    },
  };
}

/** Stand-ins for names that nobody gave; in a question they are just words. */
const UNNAMED = new Set(['user', 'assistant']);

/** A subject is named when its words stand in the question one after the other. A number, or a letter, is no name. */
function isNamed(subject: string, words: readonly string[]): boolean {
  if (UNNAMED.has(subject) || !/\p{L}{2}/u.test(subject)) return false;
  const name = wordsOf(subject);
  return words.some((_, at) => name.every((word, offset) => words[at + offset] === word));
}

const FIRST_PERSON_VERBS: Readonly<Record<string, string>> = { does: 'do', has: 'have', is: 'am' };

function toFirstPerson(text: string, names: ReadonlySet<string>): string {
  let turned = text;
  for (const name of names) {
    const pattern = escapePattern(name);
    turned = turned
      .replace(new RegExp(`(?<![\\p{L}\\p{N}])${pattern}['’]s(?![\\p{L}\\p{N}])`, 'giu'), 'my')
      .replace(new RegExp(`(?<![\\p{L}\\p{N}])${pattern}(?![\\p{L}\\p{N}])`, 'giu'), 'I');
  }
  return turned.replace(/\b(does|has|is) I\b/gi, (_, verb: string) => `${FIRST_PERSON_VERBS[verb.toLowerCase()]} I`);
}
