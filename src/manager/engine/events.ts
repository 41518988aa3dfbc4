import { callback, checkValue, oneOf, unknownKey } from '../../core/options.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { CheckpointId, SessionId } from '../../core/record/id.ts';
import type { RestoreReport } from './loading.ts';

/** What each event hands to its handlers. */
export type ManagerEvents = {
  checkpoint_saved: [checkpoint: Checkpoint];
  checkpoint_restored: [checkpoint: Checkpoint, agent: unknown, report: RestoreReport];
  checkpoint_deleted: [id: CheckpointId, reason: string];
  save_failed: [error: unknown, context: { readonly sessionId: SessionId; readonly branch: string }];
};

export type EventName = keyof ManagerEvents;

/** What a failure is told of that no caller can be told of: the handlers of an event, or what retention did after a save. */
export type FailureSource = EventName | 'retention';

const EVENT_NAMES: readonly EventName[] = [
  'checkpoint_saved',
  'checkpoint_restored',
  'checkpoint_deleted',
  'save_failed',
];

export type EventHandler<Name extends EventName> = (...args: ManagerEvents[Name]) => unknown;

type Subscription = { readonly handler: (...args: never[]) => unknown; readonly isAwaited: boolean };

/**
 * Tells handlers what happened, after it is durable. A handler that throws or rejects breaks nothing: its error goes to `onError`, by default a warning.
 */
export class Events {
  readonly #subscriptions = new Map<EventName, Set<Subscription>>();
  readonly #onError: (error: unknown, source: FailureSource) => void;

  constructor(onError: ((error: unknown, source: FailureSource) => void) | undefined) {
    this.#onError = onError ?? warnAboutFailure;
  }

  /** Subscribes; `await: true` makes the operation wait for the handler. Returns a function that unsubscribes. */
  on<Name extends EventName>(
    name: Name,
    handler: EventHandler<Name>,
    options: { readonly await?: boolean | undefined } = {},
  ): () => void {
    if (typeof name !== 'string') checkValue(name, oneOf(...EVENT_NAMES), 'The event of on()');
    if (!EVENT_NAMES.includes(name))
      throw unknownKey(name, { known: EVENT_NAMES, of: 'CheckpointManager', kind: 'an event' });
    checkValue(handler, callback, `The handler of ${name}`);
    const subscription: Subscription = { handler, isAwaited: options.await === true };
    const known = this.#subscriptions.get(name) ?? new Set();
    this.#subscriptions.set(name, known.add(subscription));
    return () => void known.delete(subscription);
  }

  /** Passes an error on that no caller can be told of. If that fails, now or later, both errors are warnings. */
  report(error: unknown, source: FailureSource): void {
    const told = new Promise((resolve) => resolve(this.#onError(error, source)));
    told.catch((thrown: unknown) => {
      warnAboutFailure(error, source);
      warn('onHandlerError failed', thrown);
    });
  }

  async emit<Name extends EventName>(name: Name, ...args: ManagerEvents[Name]): Promise<void> {
    const subscriptions = this.#subscriptions.get(name);
    if (subscriptions === undefined || subscriptions.size === 0) return;
    await Promise.all(
      [...subscriptions].map((subscription) => {
        const running = this.#run(subscription, name, args);
        return subscription.isAwaited ? running : undefined;
      }),
    );
  }

  async #run({ handler }: Subscription, name: EventName, args: readonly unknown[]): Promise<void> {
    try {
      await (handler as (...values: unknown[]) => unknown)(...args);
    } catch (error) {
      this.report(error, name);
    }
  }
}

function warnAboutFailure(error: unknown, source: FailureSource): void {
  warn(source === 'retention' ? 'Retention after a save failed' : `A handler of ${source} failed`, error);
}

function warn(what: string, error: unknown): void {
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
  process.emitWarning(`${what}: ${text}`, 'SavestateWarning');
}

/** What runs: a save, a step or a restore. */
export type TracedWork = {
  readonly kind: 'save' | 'step' | 'restore';
  readonly sessionId: string;
  /** The name of a step. */
  readonly name?: string;
};

/** What came of it. */
export type TracedOutcome = {
  readonly checkpoint?: Checkpoint | undefined;
  /** Whether a step's result came from its recording. */
  readonly isReplayed?: boolean;
};

/** Follows saves, steps and restores while they run: `openTelemetry()` of `savestate/opentelemetry`, or one of your own. */
export interface Telemetry {
  /** Runs the work, at once, and returns what it returns. `tell` may be called before it ends. */
  trace<Result>(work: TracedWork, run: (tell: (outcome: TracedOutcome) => void) => Promise<Result>): Promise<Result>;
}
