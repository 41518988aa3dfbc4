import type { StateCodec } from '../../core/codec/state-codec.ts';
import { InvalidInputError } from '../../core/errors.ts';
import { anything, flag, type OptionChecks, oneOf, record, signal } from '../../core/options.ts';
import type { CheckpointHeader } from '../../core/record/checkpoint-header.ts';
import { type GivenId, MAX_NAME_CHARS, parseId, parseName } from '../../core/record/id.ts';

/** The type of group checkpoints. */
export const GROUP_TYPE = 'group';

/** The type of what a member of another process reports during a cut. */
export const REPORT_TYPE = 'group_report';

/** States of these types are made by the manager itself: callers cannot save them, and their migrations do not concern them. */
export const OWN_TYPES: ReadonlySet<string> = new Set([GROUP_TYPE, REPORT_TYPE]);

/** What a caller may say about a checkpoint. Whatever is absent is not recorded. */
export type SaveOptions = {
  /** `routine`, `pre_operation`, `recovery`, `auto`, `manual` (the default), or a name of your own; retention goes by it. */
  readonly type?: string | undefined;
  /** What made it be saved: `message_appended`, `step_completed`, ... */
  readonly trigger?: string | undefined;
  readonly status?: string | undefined;
  readonly name?: string | undefined;
  readonly note?: string | undefined;
  readonly metadata?: { readonly [key: string]: unknown } | undefined;
  readonly agentId?: GivenId | undefined;
  readonly agentType?: string | undefined;
  readonly userId?: GivenId | undefined;
  readonly author?: string | undefined;
  readonly reason?: string | undefined;
  readonly collectedFields?: unknown;
  readonly requiredFields?: unknown;
  readonly contextSummary?: string | undefined;
  /** Prompts, model, tools, workflow: whatever must be the same for a resume to make sense. */
  readonly fingerprint?: unknown;
  /**
   * Which results of steps the state holds: all that were `seen` before the save (default), or only those `of_parent`, for a checkpoint
   * in the middle of something that a resume begins again: what was recorded since is then used, and not run again.
   */
  readonly effects?: 'seen' | 'of_parent' | undefined;
  /** Stores nothing if the state, and what is said of the agent, are as in the last checkpoint; resolves to the id of that one. */
  readonly ifChanged?: boolean | undefined;
  /** A save that is repeated with the same key is stored once. */
  readonly idempotencyKey?: string | undefined;
  readonly signal?: AbortSignal | undefined;
  /** @internal The state is read at once, and stored when this resolves; if it rejects, nothing is stored. */
  readonly after?: Promise<unknown> | undefined;
};

/** A header is read for every list entry, so what callers put into it is bounded; long things belong into the state. */
export const MAX_TEXT_CHARS = 16_384;
export const MAX_VALUE_CHARS = 65_536;

type ReadField = (value: unknown, field: string, codec: StateCodec) => unknown;

/** How what the caller gives comes into its stored form. */
const READERS = {
  id: parseId,
  name: parseName,
  key: parseOpenName,
  label: (value, field, codec) => redactText(parseName(value, field), codec),
  text: (value, field, codec) => redactText(parseText(value, field), codec),
  value: encodeValue,
} satisfies { readonly [kind: string]: ReadField };

/** How many characters of a kind are taken. */
export const MAX_CHARS = {
  id: MAX_NAME_CHARS,
  name: MAX_NAME_CHARS,
  key: MAX_NAME_CHARS,
  label: MAX_NAME_CHARS,
  text: MAX_TEXT_CHARS,
  value: MAX_VALUE_CHARS,
} satisfies { readonly [Kind in keyof typeof READERS]: number };

/** What callers say in a header, and of which kind it is. */
export const SAID_FIELDS = {
  agentId: 'id',
  userId: 'id',
  agentType: 'name',
  idempotencyKey: 'key',
  trigger: 'label',
  status: 'label',
  name: 'label',
  note: 'text',
  author: 'text',
  reason: 'text',
  contextSummary: 'text',
  metadata: 'value',
  collectedFields: 'value',
  requiredFields: 'value',
  fingerprint: 'value',
} as const satisfies { readonly [Field in keyof CheckpointHeader]?: keyof typeof READERS };

type SaidField = keyof typeof SAID_FIELDS;

export const SAID_FIELD_NAMES = Object.keys(SAID_FIELDS) as readonly SaidField[];

/** The part of a header that comes from the caller. */
export type DescribedHeader = Pick<CheckpointHeader, 'type' | SaidField>;

// What a checkpoint says of itself is checked where it is brought into its stored form.
export const SAVE_CHECKS = {
  ...(Object.fromEntries(['type', ...SAID_FIELD_NAMES].map((field) => [field, anything])) as OptionChecks<
    Pick<SaveOptions, 'type' | SaidField>
  >),
  metadata: record,
  effects: oneOf('seen', 'of_parent'),
  ifChanged: flag,
  signal,
  after: anything,
} satisfies OptionChecks<SaveOptions>;

/** Checks what the caller said and brings it into the stored form. */
export function describeCheckpoint(options: SaveOptions, codec: StateCodec): DescribedHeader {
  const header: Record<string, unknown> = { type: parseType(options.type ?? 'manual') };
  for (const field of SAID_FIELD_NAMES) {
    const said = options[field];
    if (said !== undefined) header[field] = READERS[SAID_FIELDS[field]](said, field, codec);
  }
  return header as DescribedHeader;
}

function parseType(type: unknown): string {
  const name = parseName(type, 'type');
  if (!OWN_TYPES.has(name)) return name;
  throw new InvalidInputError(`The type "${name}" is for groups. Choose another, or use saveGroup.`, {
    details: { field: 'type' },
  });
}

function parseText(text: unknown, field: string): string {
  if (typeof text === 'string' && text.length <= MAX_TEXT_CHARS) return text;
  throw new InvalidInputError(
    `${field} must be a text of at most ${MAX_TEXT_CHARS} characters; found ${typeof text === 'string' ? `${text.length} characters` : typeof text}.`,
    { details: { field } },
  );
}

/** A name that something is found by again. */
export function parseOpenName(text: unknown, field: string, codec: StateCodec): string {
  return refuseSecret(parseName(text, field), field, codec);
}

/** Accepts what nothing can be left out of, because something is found by it again; with a secret in it, it is refused. */
export function refuseSecret(text: string, field: string, codec: StateCodec): string {
  if (redactText(text, codec) === text) return text;
  throw new InvalidInputError(`${field} holds what looks like a secret, and would be stored. Use another name.`, {
    details: { field },
  });
}

/** Texts that are stored beside states are cleaned of secrets like those of the state. */
export function redactText(text: string, codec: StateCodec): string {
  const json = codec.encodeJson(text);
  return typeof json === 'string' ? json : String(codec.decodeJson(json));
}

function encodeValue(value: unknown, field: string, codec: StateCodec): unknown {
  const json = codec.encodeJson(value);
  const chars = JSON.stringify(json).length;
  if (chars <= MAX_VALUE_CHARS) return json;
  throw new InvalidInputError(
    `${field} has ${chars} characters as JSON, and the limit is ${MAX_VALUE_CHARS}. Put it into the state.`,
    { details: { field, chars } },
  );
}
