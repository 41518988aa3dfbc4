import { parse as parseYaml } from 'yaml';
import { isRecord } from '../../core/options.ts';
import { findName } from '../agent/find-name.ts';
import { findTooDeep } from '../config/yaml-source.ts';

/** One entry of the progress ledger: what is so, and why. */
export type LedgerEntry<Answer> = { readonly reason: string; readonly answer: Answer };

/** What the orchestrator thinks of the last round, and who is to do what in the next. */
export type ProgressLedger = {
  readonly is_request_satisfied: LedgerEntry<boolean>;
  readonly is_in_loop: LedgerEntry<boolean>;
  readonly is_progress_being_made: LedgerEntry<boolean>;
  readonly next_speaker: LedgerEntry<string>;
  readonly instruction_or_question: LedgerEntry<string>;
};

/** A ledger, or what a model has to be told about its answer. */
export type ParsedLedger =
  | { readonly ledger: ProgressLedger; readonly problems?: undefined }
  | { readonly ledger?: undefined; readonly problems: readonly string[] };

const FLAGS = ['is_request_satisfied', 'is_in_loop', 'is_progress_being_made'] as const;
const YES = new Set(['true', 'yes', 'y', '1']);
const NO = new Set(['false', 'no', 'n', '0']);

type Fields = Readonly<Record<string, unknown>>;

/**
 * Reads a progress ledger out of what a model said: JSON with words or a fence around it, comments, commas at the end, Python's booleans,
 * answers without reasons. What cannot be understood is named, so that the model can be told. Whoever is satisfied need not name a speaker.
 */
export function parseProgressLedger(text: string, speakers: readonly string[]): ParsedLedger {
  const fields = findObject(text);
  if (fields === undefined)
    return { problems: ['There is no JSON object with the keys of the ledger in your answer.'] };
  const problems: string[] = [];
  const [satisfied, loop, progress] = FLAGS.map((key) => readEntry(fields, key, toFlag, problems));
  const isDone = satisfied?.answer === true;
  const required = isDone ? [] : problems;
  const speaker = readEntry(fields, 'next_speaker', (value) => findName(toText(value) ?? '', speakers), required);
  const instruction = readEntry(fields, 'instruction_or_question', toText, required);
  if (problems.length > 0) {
    const choices = ` Choose one of: ${speakers.join(', ')}.`;
    return { problems: problems.map((one) => (one.startsWith('"next_speaker"') ? `${one}${choices}` : one)) };
  }
  return {
    ledger: {
      is_request_satisfied: satisfied ?? { reason: '', answer: false },
      is_in_loop: loop ?? { reason: '', answer: false },
      is_progress_being_made: progress ?? { reason: '', answer: true },
      next_speaker: speaker ?? { reason: '', answer: '' },
      instruction_or_question: instruction ?? { reason: '', answer: '' },
    },
  };
}

/** The first object in a text that has a key of the ledger. */
function findObject(text: string): Fields | undefined {
  for (const candidate of candidates(text)) {
    const value = parseLeniently(candidate);
    if (isRecord(value) && FLAGS.some((key) => lookUp(value, key) !== undefined)) return value;
  }
  return undefined;
}

/** After so many braces that begin no ledger, none will come: a model may say anything at any length. */
const MAX_CANDIDATES = 100;

/** Each balanced pair of braces, the outermost first; braces in texts do not count. */
function* candidates(text: string): Generator<string> {
  let at = -1;
  for (let count = 0; count < MAX_CANDIDATES; count++) {
    at = text.indexOf('{', at + 1);
    if (at < 0) return;
    const end = findEnd(text, at);
    if (end !== undefined) yield text.slice(at, end + 1);
  }
}

function findEnd(text: string, start: number): number | undefined {
  let depth = 0;
  let isQuoted = false;
  for (let at = start; at < text.length; at++) {
    const char = text[at];
    if (char === '\\' && isQuoted) at++;
    else if (char === '"') isQuoted = !isQuoted;
    else if (!isQuoted && char === '{') depth++;
    else if (!isQuoted && char === '}' && --depth === 0) return at;
  }
  return undefined;
}

/** YAML reads what JSON forbids and models write: single quotes, bare keys, a comma too many. */
function parseLeniently(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return parseAsYaml(text.replaceAll(/^\s*\/\/.*$/gm, ''));
  }
}

function parseAsYaml(text: string): unknown {
  if (findTooDeep(text) !== undefined) return undefined;
  try {
    return parseYaml(text, { logLevel: 'silent', uniqueKeys: false, maxAliasCount: 0 }) as unknown;
  } catch {
    return undefined; // no object either way: the model is told
  }
}

/** Keys are the same whatever their case and separators: `isInLoop`, `Is In Loop`. */
function lookUp(fields: Fields, key: string): unknown {
  if (Object.hasOwn(fields, key)) return fields[key];
  const plain = (name: string): string => name.toLowerCase().replaceAll(/[^a-z]/g, '');
  const found = Object.keys(fields).find((name) => plain(name) === plain(key));
  return found === undefined ? undefined : fields[found];
}

function readEntry<Answer>(
  fields: Fields,
  key: string,
  ...[read, problems]: [read: (value: unknown) => Answer | undefined, problems: string[]]
): LedgerEntry<Answer> | undefined {
  const given = lookUp(fields, key);
  const value = isRecord(given) ? lookUp(given, 'answer') : given;
  const answer = read(value);
  const reason = isRecord(given) ? lookUp(given, 'reason') : undefined;
  if (answer !== undefined) return { reason: typeof reason === 'string' ? reason : '', answer };
  problems.push(
    value === undefined ? `"${key}" is missing.` : `"${key}" cannot be ${JSON.stringify(value)?.slice(0, 100)}.`,
  );
  return undefined;
}

function toFlag(value: unknown): boolean | undefined {
  if (typeof value === 'boolean') return value;
  const word = typeof value === 'string' || typeof value === 'number' ? `${value}`.trim().toLowerCase() : '';
  if (YES.has(word)) return true;
  return NO.has(word) ? false : undefined;
}

function toText(value: unknown): string | undefined {
  return typeof value === 'string' && value.trim() !== '' ? value.trim() : undefined;
}
