import type { StateCodec } from '../../core/codec/state-codec.ts';
import { withoutUndefined } from '../../core/defined.ts';
import { checkOptions, date, flag, type OptionChecks, oneOf, signal, string } from '../../core/options.ts';
import { parseName } from '../../core/record/id.ts';
import type { JsonValue } from '../../core/value/json.ts';
import { extractByRules, isAcknowledgement, RULES_VERSION } from '../log/extract-by-rules.ts';
import type { CheckedExtraction, MemoryMessage } from '../log/extractor.ts';
import {
  digest,
  encodeMetadata,
  FIELD_CHECKS,
  hashContent,
  redactWhy,
  refuseSecrets,
  SCOPE_CHECKS,
  subjectOf,
  WHY_CHECKS,
  type WhyOptions,
} from '../log/memory-input.ts';
import { TEACHER_CHECKS, type TeacherOptions } from '../log/views.ts';
import {
  MEMORY_KINDS,
  type MemoryFields,
  type MemoryKind,
  type MemoryScope,
  type MemoryTrust,
} from '../storage/memory-record.ts';
import type { EventPlace } from '../storage/memory-storage.ts';

/** How something is remembered. */
export type AddOptions = MemoryScope &
  TeacherOptions &
  WhyOptions & {
    readonly metadata?: { readonly [key: string]: unknown };
    /** `false` keeps the turns and nothing else; default: rules, and the extractor if there is one, add what follows from them. */
    readonly infer?: boolean;
    /** Default `episode`: turns as they were said. */
    readonly kind?: MemoryKind;
    readonly subject?: string;
    readonly slot?: string;
    readonly trust?: MemoryTrust;
    readonly confidence?: number;
    /** Pinned memories come first wherever memory is rendered. */
    readonly isPinned?: boolean;
    /** When it was said; default now. */
    readonly observedAt?: Date;
    readonly validFrom?: Date;
    readonly expirationDate?: Date;
    /** Adding the same words again with the same key adds nothing. What a checkpoint or session teaches has such keys by itself. */
    readonly idempotencyKey?: string;
    readonly signal?: AbortSignal;
  };

const ADD_CHECKS: OptionChecks<AddOptions> = {
  ...SCOPE_CHECKS,
  ...TEACHER_CHECKS,
  ...FIELD_CHECKS,
  ...WHY_CHECKS,
  infer: flag,
  kind: oneOf(...MEMORY_KINDS),
  subject: string,
  slot: string,
  trust: oneOf('user', 'agent', 'external'),
  observedAt: date,
  validFrom: date,
  idempotencyKey: string,
  signal,
};

/** What a memory is given beside its words, in its stored form. */
export type CleanedOptions = Omit<AddOptions, 'metadata'> & { readonly metadata: JsonValue };

/** Accepts the options of `add` or throws. Names with a secret in them are refused; what else is stored is cleaned of secrets. */
export function parseAddOptions(options: AddOptions, codec: StateCodec): CleanedOptions {
  checkOptions(options, ADD_CHECKS, 'add()');
  const { userId, agentId, runId, subject, slot, idempotencyKey, session, metadata } = options;
  const names = { userId, agentId, runId, subject, slot, idempotencyKey };
  refuseSecrets({ ...names, session: session?.id, branch: session?.branch }, codec);
  return {
    ...options,
    ...redactWhy(options, codec),
    metadata: metadata === undefined ? {} : encodeMetadata(metadata, codec),
  };
}

/** A memory that may be added: what it would be, the key under which it counts once, and which proposal it was taken from. */
export type Proposal = {
  readonly fields: MemoryFields;
  readonly key: string | undefined;
  /** The turn it was taken from, as a place among the proposals. */
  readonly source?: number;
};

/** What proposals of one call have in common. */
export type ProposalContext = {
  readonly scope: MemoryScope;
  readonly place: EventPlace | undefined;
  readonly nowMs: number;
  readonly options: CleanedOptions;
};

/** Everything that turns say: the turns themselves, and, unless it was ruled out, what rules find in those of the user. */
export function proposeTurns(messages: readonly MemoryMessage[], context: ProposalContext): Proposal[] {
  const { infer = true, kind = 'episode' } = context.options;
  const isInferring = infer && kind === 'episode';
  const kept = isInferring ? messages.filter(({ content }) => !isAcknowledgement(content)) : messages;
  const keys = new Keys(context);
  const proposals: Proposal[] = [];
  for (const message of kept) {
    const source = proposals.length;
    const fields = fieldsOfTurn(message, context);
    proposals.push({ fields, key: keys.next('turn', fields.hash) });
    if (!isInferring || fields.trust !== 'user') continue;
    for (const found of extractByRules(message.content, fields.observedAtMs)) {
      const derived = derive(fields, found);
      proposals.push({ fields: derived, key: keys.next(RULES_VERSION, derived.hash), source });
    }
  }
  return proposals;
}

function fieldsOfTurn(message: MemoryMessage, { scope, nowMs, options }: ProposalContext): MemoryFields {
  const { kind = 'episode', metadata, confidence = 1, isPinned = false } = options;
  const subject = parseName(options.subject ?? subjectOf(message, scope), 'subject');
  const isEpisode = kind === 'episode';
  const times = timesOf(message, { options, nowMs });
  return withoutUndefined({
    content: message.content,
    hash: hashContent(message.content, { subject, isEpisode }),
    kind,
    subject,
    slot: parseSlot(options.slot),
    metadata,
    trust: options.trust ?? (message.role === 'user' ? 'user' : 'agent'),
    confidence,
    isPinned,
    ...times,
    validFromMs: isEpisode ? undefined : times.validFromMs,
    messageId: message.id,
  });
}

function timesOf({ timestamp }: MemoryMessage, { options, nowMs }: Pick<ProposalContext, 'options' | 'nowMs'>) {
  const { observedAt, validFrom, expirationDate } = options;
  const observedAtMs = (timestamp ?? observedAt)?.getTime() ?? nowMs;
  return { observedAtMs, validFromMs: validFrom?.getTime() ?? observedAtMs, expiresAtMs: expirationDate?.getTime() };
}

function parseSlot(slot: string | undefined): string | undefined {
  return slot === undefined ? undefined : parseName(slot, 'slot');
}

type Derived = {
  readonly content: string;
  readonly kind: MemoryKind;
  readonly subject?: string | undefined;
  readonly slot?: string | undefined;
  readonly confidence?: number;
  readonly sinceMs?: number;
  readonly span?: readonly [number, number];
};

/** An overlay says the same about the same moment as the turn it was taken from, only more clearly. */
function derive(
  turn: MemoryFields,
  { content, kind, slot, confidence = 0.8, sinceMs, span, ...found }: Derived,
): MemoryFields {
  const subject = parseName(found.subject ?? turn.subject, 'subject');
  const { metadata, trust, observedAtMs, expiresAtMs, messageId } = turn;
  return withoutUndefined({
    content,
    hash: hashContent(content, { subject, isEpisode: false }),
    kind,
    subject,
    slot: parseSlot(slot),
    metadata,
    trust,
    confidence,
    isPinned: false,
    observedAtMs,
    validFromMs: sinceMs ?? observedAtMs,
    expiresAtMs,
    span,
    messageId,
  });
}

const TRUST_ORDER: readonly MemoryTrust[] = ['external', 'agent', 'user'];

/** What an extractor found in turns that are stored: each points at its turns and is as trusted as the least of them. */
export function proposeExtracted(
  extracted: readonly CheckedExtraction[],
  turns: readonly { readonly id: string; readonly fields: MemoryFields }[],
  { context, extractorId }: { context: ProposalContext; extractorId: string },
): Proposal[] {
  const keys = new Keys(context);
  return extracted.flatMap((found) => {
    const named = found.message === undefined ? undefined : turns[found.message];
    const sources = named === undefined ? turns : [named];
    const [first] = sources;
    if (first === undefined) return [];
    const trust = TRUST_ORDER.find((least) => sources.some(({ fields }) => fields.trust === least)) ?? 'external';
    const fields = derive({ ...first.fields, trust }, found);
    return [
      {
        fields: { ...fields, derivedFrom: sources.map(({ id }) => id) },
        key: keys.next(extractorId, fields.hash),
      },
    ];
  });
}

/** Keys that are the same when the same call is made again: by the same checkpoint, or with the same idempotency key. */
class Keys {
  readonly #source: readonly unknown[] | undefined;
  readonly #counts = new Map<string, number>();

  constructor({ scope, place, options: { idempotencyKey } }: ProposalContext) {
    const { sessionId, branch, checkpointId, isAfter } = place ?? {};
    const teacher = idempotencyKey ?? (place && [sessionId, branch, checkpointId, isAfter]);
    this.#source = teacher === undefined ? undefined : [scope.userId, scope.agentId, scope.runId, teacher];
  }

  next(extractor: string, hash: string): string | undefined {
    if (this.#source === undefined) return undefined;
    const name = `${extractor} ${hash}`;
    const count = this.#counts.get(name) ?? 0;
    this.#counts.set(name, count + 1);
    return digest([...this.#source, name, count]);
  }
}

/** The key under which an extractor's answer about these turns is kept. */
export function extractionKey(
  context: ProposalContext,
  extractorId: string,
  hashes: readonly string[],
): string | undefined {
  return new Keys(context).next(`extract ${extractorId}`, digest(hashes));
}
