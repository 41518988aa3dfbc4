import { z } from 'zod';
import { InvalidInputError } from '../../core/errors.ts';
import { DERIVED_KINDS, type MemoryRecord, type MemoryScope } from '../storage/memory-record.ts';

/** One turn of a conversation. Turns of the roles `system`, `developer`, `tool` and `function` are never learned from; another role than these, `user` and `assistant` is refused. */
export type MemoryMessage = {
  readonly role: string;
  readonly content: string;
  /** Who speaks; becomes the subject of what is remembered. */
  readonly name?: string;
  readonly id?: string;
  readonly timestamp?: Date;
};

/** What an extractor is given: the turns as they were stored, and what is known already that looks alike. */
export type ExtractionRequest = {
  readonly messages: readonly MemoryMessage[];
  readonly scope: MemoryScope;
  readonly observedAt: Date;
  readonly known: readonly MemoryRecord[];
  /** Aborts when the time is over, or `add` is called off. */
  readonly signal: AbortSignal;
};

/** Finds more than rules can, for instance with a model. Its answer is recorded, so that a replay does not ask again. */
export interface MemoryExtractor {
  /** Names the model and the prompt; another id is asked anew. */
  readonly id: string;
  /** How long it may take; default: a minute. */
  readonly timeoutMs?: number;
  extract(request: ExtractionRequest): Promise<readonly ExtractedMemory[]>;
}

const Extracted = z.array(
  z.object({
    content: z.string().trim().min(1),
    kind: z.enum(DERIVED_KINDS).default('fact'),
    subject: z.string().trim().min(1).optional(),
    slot: z.string().trim().min(1).optional(),
    confidence: z.number().min(0).max(1).default(0.7),
    /** Which of the messages says it; default: all of them. */
    message: z.number().int().min(0).optional(),
  }),
);

/** A memory as an extractor proposes it. */
export type ExtractedMemory = z.input<typeof Extracted>[number];

/** A proposal that was checked, with its defaults filled in. */
export type CheckedExtraction = z.output<typeof Extracted>[number];

/** Accepts what an extractor answered or throws. */
export function checkExtraction(answer: unknown, extractorId: string): CheckedExtraction[] {
  const checked = Extracted.safeParse(answer);
  if (checked.success) return checked.data;
  throw new InvalidInputError(
    `The extractor "${extractorId}" must answer a list of { content, kind?, subject?, slot?, confidence?, message? }: ${z.prettifyError(checked.error)}`,
  );
}
