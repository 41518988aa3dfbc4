import type { StateCodec } from '../../core/codec/state-codec.ts';
import { withoutUndefined } from '../../core/defined.ts';
import { InvalidInputError } from '../../core/errors.ts';
import { describeValue, isRecord } from '../../core/options.ts';
import { MAX_NAME_CHARS } from '../../core/record/id.ts';
import { MAX_TEXT_CHARS, MAX_VALUE_CHARS, type SaveOptions } from '../engine/save-options.ts';
import { COMPARES_CODE, hasMethod, isAgent, isHandle } from './agent.ts';
import type { Fields } from './field-kinds.ts';
import { dataOf, hasOwnCode } from './put-fields.ts';

/** Who an agent is; what it does not say is absent. */
export type AgentIdentity = { readonly agentId: string | undefined; readonly agentType: string | undefined };

/**
 * What an agent, or a plain state, says about itself where the caller said nothing. What is too long for a header is cut, and says so: it
 * is in the state. Throws if an id is neither a text nor a number: without it the checkpoint would not be found.
 */
export function describeAgent(value: unknown, said: SaveOptions, codec: StateCodec): SaveOptions {
  if (typeof value !== 'object' || value === null) return {};
  const fields = value as Fields;
  const readers: { readonly [Name in keyof SaveOptions]: () => unknown } = {
    agentId: () => readId(fields, fields.agentId === undefined ? 'id' : 'agentId') ?? teamName(fields),
    agentType: () => readType(value, codec),
    userId: () => readId(fields, 'userId'),
    status: () => readText(fields.status, MAX_NAME_CHARS, codec)?.replaceAll(UNPRINTABLE, ' '),
    contextSummary: () => readText(fields.contextSummary, MAX_TEXT_CHARS, codec),
    collectedFields: () => readValue(fields.collectedFields, codec),
    requiredFields: () => readValue(fields.requiredFields, codec),
    fingerprint: () => readInstances(value),
  };
  const unsaid = Object.entries(readers).filter(([name]) => said[name as keyof SaveOptions] === undefined);
  return withoutUndefined(Object.fromEntries(unsaid.map(([name, read]) => [name, read()])));
}

/** Of an agent that says what is saved of it, and not how it is put back: the fields of which its state only describes instances. */
function readInstances(agent: object): unknown {
  if (!hasMethod(agent, 'saveState') || hasMethod(agent, 'loadState')) return undefined;
  const fields = Object.entries(dataOf(agent)).filter(([, value]) => hasOwnCode(value) || holdsInstances(value));
  const instances = fields.filter(([, value]) => !isHandle(value)).map(([key]) => key);
  return instances.length === 0 ? undefined : { kind: 'agent', instances };
}

/** So many items of a list are looked at: the others are of the same kind. */
const MAX_LOOKED_AT = 100;

function holdsInstances(value: unknown): boolean {
  if (!Array.isArray(value) && !(value instanceof Map) && !(value instanceof Set)) return false;
  let count = 0;
  for (const item of value.values()) {
    if (hasOwnCode(item)) return true;
    if (++count === MAX_LOOKED_AT) return false;
  }
  return false;
}

/** The fields of an agent that held instances of classes, by the fingerprint of its checkpoint. */
export function parseInstances(fingerprint: unknown): readonly string[] {
  const { kind, instances } = isRecord(fingerprint) ? fingerprint : {};
  return kind === 'agent' && Array.isArray(instances) ? instances.map(String) : [];
}

/** Who a live object is, as far as it says so; an agent of a team is known by its name. */
export function identifyAgent(agent: object, codec: StateCodec): AgentIdentity {
  const { agentId, id } = agent as Fields;
  return { agentId: toId(agentId ?? id ?? teamName(agent as Fields)), agentType: readType(agent, codec) };
}

function teamName(agent: Fields): string | undefined {
  return COMPARES_CODE in agent ? toId(agent.name) : undefined;
}

/** The class of an agent, or the name it has for it. Plain data has none. */
function readType(value: object, codec: StateCodec): string | undefined {
  if (!isAgent(value, codec)) return undefined;
  return toId((value as Fields).agentType) ?? toId(value.constructor.name);
}

function readId(fields: Fields, name: string): string | undefined {
  const value = fields[name];
  if (isAbsent(value)) return undefined;
  const id = toId(value);
  if (id !== undefined) return id;
  const option = name === 'id' ? 'agentId' : name;
  throw new InvalidInputError(
    `The field "${name}" must be a text of at most ${MAX_NAME_CHARS} characters, or a number; found ${describeValue(value)}. Change it, or pass the option ${option} to save.`,
    { details: { field: name } },
  );
}

function toId(value: unknown): string | undefined {
  if (typeof value === 'bigint' || Number.isFinite(value)) return String(value);
  return typeof value === 'string' && value !== '' && value.length <= MAX_NAME_CHARS ? value : undefined;
}

/** Fields that are not set; methods are no fields. */
function isAbsent(value: unknown): boolean {
  return value === undefined || value === null || value === '' || typeof value === 'function';
}

const UNPRINTABLE = /\p{Cc}|\p{Cs}/gu;

/** A text as it is, anything else as JSON; the end of what is too long gives way to a note. */
function readText(value: unknown, maxChars: number, codec: StateCodec): string | undefined {
  if (isAbsent(value)) return undefined;
  const text = typeof value === 'string' ? value : JSON.stringify(codec.encodeJson(value));
  if (text.length <= maxChars) return text;
  const note = `… [cut off: ${text.length} characters]`;
  return `${text.slice(0, maxChars - note.length)}${note}`;
}

function readValue(value: unknown, codec: StateCodec): unknown {
  if (isAbsent(value)) return undefined;
  const chars = JSON.stringify(codec.encodeJson(value)).length;
  return chars <= MAX_VALUE_CHARS ? value : `[left out: ${chars} characters are too long for a header; see the state]`;
}
