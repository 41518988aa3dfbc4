import { CorruptError } from '../errors.ts';
import { checkEntries, firstKey, type Json, readTag } from '../tree/chunk-text.ts';
import { isBytesTag } from '../value/atom.ts';

/** What a chunk holds; a node is one of a tree, above the leaves. */
export type ChunkForm = 'text' | 'list' | 'fields' | 'node' | 'other';

/** The most special that all elements of a collection are. `named`: pairs of a text and a value; `pieces`: chunks that are texts. */
export type ElementForm = 'named' | 'pairs' | 'pieces' | 'any';

/** What the elements of all parts are. */
export function commonForm(parts: readonly { readonly elements: ElementForm }[]): ElementForm {
  const forms = new Set(parts.map(({ elements }) => elements));
  if (forms.size === 1) return parts[0]?.elements ?? 'any';
  return forms.size === 2 && forms.has('named') && forms.has('pairs') ? 'pairs' : 'any';
}

const PIECES: ReadonlySet<ElementForm> = new Set(['pieces']);
const NAMED: ReadonlySet<ElementForm> = new Set(['named']);
const ANY: ReadonlySet<ElementForm> = new Set(['any', 'pairs', 'named', 'pieces']);

const ALLOWED_FORMS: ReadonlyMap<string, ReadonlySet<ElementForm>> = new Map([
  ['Array', ANY],
  ['Set', ANY],
  ['Map', new Set<ElementForm>(['pairs', 'named'])],
  ['object', NAMED],
  ['bare', NAMED],
  ['text', PIECES],
]);

/** Throws unless a tree of this kind may have elements of this form. */
export function checkKind(kind: string, form: ElementForm | undefined): void {
  const allowed = isBytesTag(kind) ? PIECES : ALLOWED_FORMS.get(kind);
  if (allowed === undefined) throw new CorruptError(`A tree is of the kind ${JSON.stringify(kind)}, which is unknown.`);
  if (form !== undefined && !allowed.has(form))
    throw new CorruptError(`A tree of the kind ${JSON.stringify(kind)} has other elements than those have.`);
}

/** Throws if one of the keys that are no objects comes twice. */
export function checkKeys(keys: readonly Json[]): void {
  const plain = keys.filter((key) => typeof key !== 'object' || key === null);
  checkEntries(new Set(plain).size, plain.length);
}

/** The form of a chunk that is no node. */
export function formOf(json: Json): ChunkForm {
  if (typeof json === 'string') return 'text';
  if (Array.isArray(json)) return 'list';
  return typeof json === 'object' && json !== null && !isOtherTag(json) ? 'fields' : 'other';
}

function isOtherTag(json: { readonly [key: string]: Json }): boolean {
  return firstKey(json) === '$' && !FIELD_TAGS.has(readTag(json.$)[0]);
}

const FIELD_TAGS: ReadonlySet<string> = new Set(['object', 'bare', 'fields', 'bareFields']);

/** Whether this stands for a chunk. */
export function isRef(json: Json | undefined): boolean {
  return typeof json === 'object' && json !== null && !Array.isArray(json) && json.$ === 0 && firstKey(json) === '$';
}

/** Which kind of pair a list is, if it is one. */
export function pairForm(json: readonly Json[]): 'named' | 'pairs' | undefined {
  if (json.length !== 2) return undefined;
  return typeof json[0] === 'string' ? 'named' : 'pairs';
}
