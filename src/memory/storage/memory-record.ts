import { InvalidInputError } from '../../core/errors.ts';
import type { JsonValue } from '../../core/value/json.ts';

/** Whose memory it is. At least one of the three is needed wherever memories are written or looked up. */
export type MemoryScope = {
  readonly userId?: string | undefined;
  readonly agentId?: string | undefined;
  readonly runId?: string | undefined;
};

/** What follows from a turn. */
export const DERIVED_KINDS = ['instruction', 'preference', 'decision', 'fact', 'outcome', 'procedure'] as const;

/** All kinds. An `episode` is a turn as it was said. */
export const MEMORY_KINDS = [...DERIVED_KINDS, 'episode'] as const;

/** What sort of thing is remembered. */
export type MemoryKind = (typeof MEMORY_KINDS)[number];

/** Accepts the name of a kind or throws. */
export function parseKind(text: string): MemoryKind {
  const kind = MEMORY_KINDS.find((known) => known === text);
  if (kind !== undefined) return kind;
  throw new InvalidInputError(`There is no kind "${text}". There are: ${MEMORY_KINDS.join(', ')}.`);
}

/** What prompts have for what is remembered: `{memory}`, or `{memory:preferences}` and the like. Doubled braces stand for themselves. */
export const PLACEHOLDER = /\{\{memory(?::[a-z]+)?\}\}|\{memory(?::([a-z]+))?\}/g;

/** A template for whoever has no memory: its placeholders become empty. */
export function renderNothing(template: string): string {
  return template.replace(PLACEHOLDER, (found) => (found.startsWith('{{') ? found.slice(1, -1) : ''));
}

/** Where the words came from: the user, the agent, or outside of both. A memory is as trusted as the least of its sources. */
export type MemoryTrust = 'user' | 'agent' | 'external';

/** What is remembered, as an event carries it. */
export type MemoryFields = {
  readonly content: string;
  readonly hash: string;
  readonly kind: MemoryKind;
  readonly subject: string;
  /** What it says about its subject; a newer memory of the same subject and slot supersedes an older one. */
  readonly slot?: string;
  /** As `encodeJson` makes it. */
  readonly metadata: JsonValue;
  readonly trust: MemoryTrust;
  readonly confidence: number;
  readonly isPinned: boolean;
  readonly observedAtMs: number;
  readonly validFromMs?: number;
  readonly validToMs?: number;
  readonly supersededBy?: string;
  readonly expiresAtMs?: number;
  /** Memories it was taken from, and where in the first of them. */
  readonly derivedFrom?: readonly string[];
  readonly span?: readonly [start: number, end: number];
  readonly messageId?: string;
  /** The turn before this one, for neighbours. */
  readonly previousId?: string;
};

/** A memory as callers see it, from where they stand. */
export type MemoryRecord = {
  readonly id: string;
  readonly memory: string;
  readonly kind: MemoryKind;
  readonly subject: string;
  readonly slot?: string;
  readonly userId?: string;
  readonly agentId?: string;
  readonly runId?: string;
  readonly metadata: { readonly [key: string]: unknown };
  readonly trust: MemoryTrust;
  readonly confidence: number;
  readonly isPinned: boolean;
  /** Whether it is seen from every branch. */
  readonly isPromoted: boolean;
  /** How often it was learned again. */
  readonly reinforcements: number;
  /** Changes with every change that is visible from here; `update` and `delete` take it as `expectedVersion`. */
  readonly version: number;
  readonly observedAt: Date;
  readonly validFrom?: Date;
  readonly validTo?: Date;
  readonly supersededBy?: string;
  readonly expiresAt?: Date;
  readonly derivedFrom: readonly string[];
  /** The message that said it, if it had an id. */
  readonly messageId?: string;
  readonly createdAt: Date;
  readonly updatedAt: Date;
};
