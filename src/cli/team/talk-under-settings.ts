import { messageOf } from '../../core/errors.ts';
import { createPorts } from '../../manager/engine/ports.ts';
import type { Session } from '../../manager/session/session.ts';
import { supervise } from '../../runtime/run/supervise.ts';
import type { Context } from '../base/context.ts';
import type { FoundSettings } from '../place/project.ts';
import type { Departure, Following, Talk, TeamResult } from './talk.ts';

const SECOND_MS = 1_000;

/** A talk as `workflow.yaml` wants it: a run that fails is resumed from its last checkpoint, and one that takes too long is stopped there. */
export class TalkUnderSettings implements Talk {
  readonly #talk: Talk;
  readonly #context: Context;
  readonly #settings: FoundSettings['config']['workflow'];

  constructor(talk: Talk, context: Context, { config }: FoundSettings) {
    this.#talk = talk;
    this.#context = context;
    this.#settings = config.workflow;
  }

  prompt(sessionId: string, text: string, options: Following & { readonly rounds?: number }): Promise<TeamResult> {
    return this.#supervise(options, (following) => this.#talk.prompt(sessionId, text, { ...options, ...following }));
  }

  resume(sessionId: string, options: Parameters<Talk['resume']>[1]): Promise<TeamResult> {
    return this.#supervise(options, (following) => this.#talk.resume(sessionId, { ...options, ...following }));
  }

  depart(checkpointId: string, options: Following & Departure): Promise<TeamResult> {
    return this.#supervise(options, (following) => this.#talk.depart(checkpointId, { ...options, ...following }));
  }

  /** Its attempts are counted by the recovery. */
  recover(session: Session, options: Parameters<Talk['recover']>[1]): Promise<TeamResult> {
    return this.#talk.recover(session, { ...options, signal: this.#limit(options.signal) });
  }

  async #supervise(
    { signal, onText, onMessage, onWork, ask }: Following,
    begin: (following: Pick<Following, 'signal'>) => Promise<TeamResult>,
  ): Promise<TeamResult> {
    const limited = this.#limit(signal);
    const following = {
      signal: limited,
      onText,
      onMessage,
      ...(onWork !== undefined && { onWork }),
      ...(ask !== undefined && { ask }),
    };
    let last: TeamResult | undefined;
    const attempt = async (before: TeamResult | undefined): Promise<TeamResult> => {
      last = await (before === undefined ? begin(following) : this.#talk.resume(before.sessionId, following));
      return last;
    };
    const result = await supervise<TeamResult>({
      settings: this.#settings.checkpointing,
      signal: limited,
      ports: createPorts(),
      attempt,
      failureOf: (tried) => (tried.status === 'failed' ? { error: tried.error, mark: '' } : undefined),
      isPassing: () => false, // what was said must not be said again
      onRetry: (retry) =>
        this.#context.say(
          `attempt ${retry.attempt} failed: ${messageOf(retry.error)}; the next one is in ${retry.pauseMs} ms`,
        ),
    }).catch((error: unknown) => {
      if (limited.aborted && last !== undefined) return last;
      throw error;
    });
    if (limited.aborted && !signal.aborted)
      this.#context.say(`Stopped after ${this.#settings.timeout_seconds} s (timeout_seconds).`);
    return result;
  }

  #limit(signal: AbortSignal): AbortSignal {
    const { timeout_seconds: seconds } = this.#settings;
    return seconds === undefined ? signal : AbortSignal.any([signal, AbortSignal.timeout(seconds * SECOND_MS)]);
  }
}
