import type { StateCodec } from '../../../core/codec/state-codec.ts';
import { callback, checkValue } from '../../../core/options.ts';
import type { CheckpointId } from '../../../core/record/id.ts';
import { redactText } from '../../../manager/engine/save-options.ts';
import type { Job } from '../state/agent-state.ts';
import type { ErrorText } from '../state/error-text.ts';
import type { SectionName, SectionsReport } from '../state/sections.ts';
import type { DriftReading } from './drift-watch.ts';
import type { UndoneCall } from './operation.ts';

/** What happens in a loop, in the order in which it happens; checkpoints are told when they are durable. */
export type LoopEvent =
  | { readonly kind: 'started'; readonly turn: number; readonly report: SectionsReport }
  | { readonly kind: 'checkpoint'; readonly id: CheckpointId; readonly type: string; readonly trigger: string }
  | { readonly kind: 'checkpoint_failed'; readonly trigger: string; readonly error: ErrorText }
  | { readonly kind: 'turn'; readonly job: Job; readonly status: 'done' | 'failed'; readonly error?: ErrorText }
  | { readonly kind: 'set_aside'; readonly messageId: string; readonly error: ErrorText }
  | { readonly kind: 'task_failed'; readonly error: ErrorText }
  | { readonly kind: 'storage_failed'; readonly error: ErrorText }
  | {
      readonly kind: 'operation';
      readonly name: string;
      readonly status: 'begun' | 'done' | 'failed' | 'rolled_back';
      readonly undone?: readonly UndoneCall[];
    }
  | { readonly kind: 'drift'; readonly reading: DriftReading }
  | {
      readonly kind: 'restored';
      readonly from: CheckpointId;
      readonly report: SectionsReport;
      /** What the agent is told of it. */
      readonly note: string;
    }
  | { readonly kind: 'refreshed'; readonly from: CheckpointId; readonly report: SectionsReport }
  | { readonly kind: 'escalated'; readonly reason: string }
  | { readonly kind: 'section_failed'; readonly section: SectionName; readonly error: ErrorText }
  | { readonly kind: 'watch_failed'; readonly error: ErrorText }
  | { readonly kind: 'agent_failed'; readonly trigger: 'refresh' | 'restore'; readonly error: ErrorText }
  | { readonly kind: 'heartbeat' }
  | { readonly kind: 'stopped'; readonly reason: 'stopped' | 'refresh' | 'failed'; readonly error?: ErrorText };

/** Hears what happens. One that throws or rejects breaks nothing: its error becomes a process warning. */
export type LoopListener = (event: LoopEvent) => void;

/** Tells listeners. */
export class LoopEvents {
  readonly #listeners = new Set<LoopListener>();
  readonly #codec: StateCodec;
  /** What happened before anybody could listen. */
  readonly #early: LoopEvent[] = [];
  #isOpen = false;

  constructor(codec: StateCodec) {
    this.#codec = codec;
  }

  on(listener: LoopListener): () => void {
    checkValue(listener, callback, 'The listener of a loop');
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Tells listeners from now on: the loop is open. */
  open(): void {
    this.#isOpen = true;
  }

  /** Tells what happened while the loop was opened. */
  tellEarly(): void {
    for (const event of this.#early.splice(0)) this.tell(event);
  }

  readonly tell = (event: LoopEvent): void => {
    if (!this.#isOpen) this.#early.push(event);
    if (this.#listeners.size === 0) return;
    const told = withoutSecrets(event, (text) => redactText(text, this.#codec));
    for (const listener of this.#listeners) void callListener(listener, told);
  };
}

/** Errors quote what they failed with: what is told of them is as clean as what is saved of them. */
function withoutSecrets(event: LoopEvent, redact: (text: string) => string): LoopEvent {
  if (event.kind === 'escalated') return { ...event, reason: redact(event.reason) };
  if (!('error' in event) || event.error === undefined) return event;
  return { ...event, error: { ...event.error, message: redact(event.error.message) } };
}

/** A listener must break nothing: if it throws, or returns a promise that rejects, that is a process warning. */
async function callListener(listener: LoopListener, event: LoopEvent): Promise<void> {
  try {
    await listener(event);
  } catch (error) {
    process.emitWarning(`A listener of ${event.kind} failed: ${String(error)}`, 'SavestateWarning');
  }
}
