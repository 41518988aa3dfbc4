import { setTimeout as sleep } from 'node:timers/promises';
import type { Context } from '../context.ts';
import type { FoundSettings } from '../place/settings-file.ts';
import { messageOf } from './run-text.ts';
import type { Departure, Following, Talk, TeamResult } from './talk.ts';

const SECOND_MS = 1_000;
const MAX_PAUSE_MS = 300_000;

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

  async #supervise(
    { signal, onText, onMessage, ask }: Following,
    begin: (following: Pick<Following, 'signal'>) => Promise<TeamResult>,
  ): Promise<TeamResult> {
    const limited = this.#limit(signal);
    const checkpointing = this.#settings.checkpointing;
    const limit = checkpointing.auto_resume_on_failure ? checkpointing.auto_resume_limit : 0;
    let result = await begin({ signal: limited });
    for (let attempt = 1; result.status === 'failed' && attempt <= limit; attempt++) {
      const factor = 2 ** (attempt - 1);
      const pauseMs = Math.min(MAX_PAUSE_MS, checkpointing.auto_resume_backoff_seconds * SECOND_MS * factor);
      this.#context.say(`attempt ${attempt} failed: ${messageOf(result.error)}; the next one is in ${pauseMs} ms`);
      if (!(await pause(pauseMs, limited))) break;
      const following = { signal: limited, onText, onMessage, ...(ask !== undefined && { ask }) };
      result = await this.#talk.resume(result.sessionId, following);
    }
    if (limited.aborted && !signal.aborted)
      this.#context.say(`Stopped after ${this.#settings.timeout_seconds} s (timeout_seconds).`);
    return result;
  }

  #limit(signal: AbortSignal): AbortSignal {
    const { timeout_seconds: seconds } = this.#settings;
    return seconds === undefined ? signal : AbortSignal.any([signal, AbortSignal.timeout(seconds * SECOND_MS)]);
  }
}

/** Whether the pause was not cut short. */
async function pause(ms: number, signal: AbortSignal): Promise<boolean> {
  await sleep(ms, undefined, { signal }).catch(() => undefined);
  return !signal.aborted;
}
