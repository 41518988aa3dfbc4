import type { StateCodec } from '../../core/codec/state-codec.ts';
import { InvalidInputError } from '../../core/errors.ts';
import * as is from '../../core/options.ts';
import { checkValue, type OptionChecks } from '../../core/options.ts';
import { parseName } from '../../core/record/id.ts';
import { digestText } from '../../core/tree/chunk.ts';
import type { JsonValue } from '../../core/value/json.ts';
import { SecretRef } from '../../core/value/secret-ref.ts';
import { redactText, refuseSecret } from '../../manager/engine/save-options.ts';
import type { MemoryScope } from '../storage/memory-record.ts';
import type { MemoryMessage } from './extractor.ts';
import { stripMemoryBlocks } from './memory-block.ts';

/** Whose memory it is; the names are checked by `parseScope`. */
export const SCOPE_CHECKS: OptionChecks<MemoryScope> = {
  userId: is.anything,
  agentId: is.anything,
  runId: is.anything,
};

/** What a caller may say of a memory besides its words. */
export const FIELD_CHECKS = {
  metadata: is.accepts('a plain object', is.isPlainObject),
  expirationDate: is.date,
  isPinned: is.flag,
  confidence: is.accepts('a number from 0 to 1', (value) => typeof value === 'number' && value >= 0 && value <= 1),
};

/** Who learns or changes something, and why. */
export type WhyOptions = { readonly actor?: string; readonly reason?: string };

export const WHY_CHECKS: OptionChecks<WhyOptions> = { actor: is.string, reason: is.string };

/** Who and why in their stored form. */
export function redactWhy({ actor, reason }: WhyOptions, codec: StateCodec): WhyOptions {
  return {
    ...(actor !== undefined && { actor: redactText(actor, codec) }),
    ...(reason !== undefined && { reason: redactText(reason, codec) }),
  };
}

/** Longer texts are refused: memory holds what was said, not documents. */
const MAX_CONTENT_CHARS = 100_000;

/** What may be remembered: a text the user said, one turn, or several. */
export type MemoryInput = string | MemoryMessage | readonly MemoryMessage[];

/** Accepts a scope or throws: whose memory it is must always be said. */
export function parseScope(scope: MemoryScope): MemoryScope {
  const { userId, agentId, runId } = scope ?? {};
  if (userId === undefined && agentId === undefined && runId === undefined) {
    throw new InvalidInputError('Whose memory is it? Give at least one of userId, agentId and runId.');
  }
  return {
    ...(userId !== undefined && { userId: parseName(userId, 'userId') }),
    ...(agentId !== undefined && { agentId: parseName(agentId, 'agentId') }),
    ...(runId !== undefined && { runId: parseName(runId, 'runId') }),
  };
}

const LEARNED_ROLES = new Set(['user', 'assistant']);
const IGNORED_ROLES = new Set(['system', 'developer', 'tool', 'function']);

/** The turns that may be learned from, without our own blocks and without secrets in them. System prompts and the answers of tools are left out. */
export function parseMessages(input: MemoryInput, codec: StateCodec): MemoryMessage[] {
  const messages =
    typeof input === 'string' ? [{ role: 'user', content: input }] : Array.isArray(input) ? input : [input];
  return (messages as MemoryMessage[]).flatMap((given) => {
    // A turn that was nothing but a secret comes back from a checkpoint as a reference.
    const message =
      (given?.content as unknown) instanceof SecretRef ? { ...given, content: `${given.content}` } : given;
    const { role, content, name, id } = checkMessage(message);
    const own = stripMemoryBlocks(content).trim();
    if (IGNORED_ROLES.has(role) || own === '') return [];
    refuseSecrets({ name, id }, codec);
    return [{ ...message, content: redactText(own, codec) }];
  });
}

function checkMessage(message: MemoryMessage): MemoryMessage {
  const isMessage =
    typeof message === 'object' &&
    message !== null &&
    typeof message.role === 'string' &&
    typeof message.content === 'string';
  if (!isMessage) {
    throw new InvalidInputError(
      `A message must be { role, content }, both strings; found ${JSON.stringify(message)?.slice(0, 80)}.`,
    );
  }
  if (!LEARNED_ROLES.has(message.role) && !IGNORED_ROLES.has(message.role))
    throw new InvalidInputError(
      `The role of a message must be one of ${[...LEARNED_ROLES, ...IGNORED_ROLES].join(', ')}; found "${message.role}".`,
    );
  checkContent(message.content);
  if (message.timestamp !== undefined) checkValue(message.timestamp, is.date, 'The timestamp of a message');
  return message;
}

/** Throws for what is no id, before something else is found without one. */
export function checkId(id: unknown, verb: string): void {
  checkValue(id, is.filledString, `The id of ${verb}()`);
}

/** Accepts the words of a memory or throws. */
export function checkContent(content: unknown): string {
  if (
    typeof content === 'string' &&
    content.length <= MAX_CONTENT_CHARS &&
    content.isWellFormed() &&
    !content.includes('\0')
  )
    return content;
  throw new InvalidInputError(
    `A memory must be well-formed text of at most ${MAX_CONTENT_CHARS} characters; found ${describeContent(content)}. Store documents elsewhere and remember what matters of them.`,
  );
}

function describeContent(content: unknown): string {
  if (typeof content !== 'string') return typeof content;
  return content.length > MAX_CONTENT_CHARS ? `${content.length} characters` : 'a NUL or half a character in it';
}

/** Names cannot be redacted, because memories are found by them: throws for one with a secret in it. */
export function refuseSecrets(names: { readonly [field: string]: string | undefined }, codec: StateCodec): void {
  for (const field in names) {
    const name = names[field];
    if (name !== undefined) refuseSecret(typeof name === 'string' ? name : parseName(name, field), field, codec);
  }
}

/** The stored form of metadata, which reads back as it was given; throws for what cannot be kept, and names its path. */
export function encodeMetadata(metadata: object, codec: StateCodec): JsonValue {
  const json = codec.encodeJson(metadata);
  JSON.stringify(json, (key, value) => {
    refuseSecret(key, 'A key of metadata', codec);
    return value;
  });
  return json;
}

/** Whom a turn is about, until someone says otherwise: who said it. */
export function subjectOf({ role, name }: MemoryMessage, { userId, agentId }: MemoryScope): string {
  if (name !== undefined) return name;
  return role === 'assistant' ? (agentId ?? 'assistant') : (userId ?? 'user');
}

/** Equal for texts that say the same in the same words about the same subject. */
export function hashContent(content: string, { subject, isEpisode }: { subject: string; isEpisode: boolean }): string {
  const words = content
    .normalize('NFKC')
    .toLowerCase()
    .replace(/\s+/g, ' ')
    .replace(/[\s.!]+$/, '')
    .trim();
  return digest([subject, isEpisode, words]);
}

/** A short name for some values. */
export function digest(values: readonly unknown[]): string {
  return digestText(JSON.stringify(values)).slice(0, 32);
}
