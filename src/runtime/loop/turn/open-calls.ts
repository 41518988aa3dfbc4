import { ClosedError } from '../../../core/errors.ts';
import type { Turn } from './loop-agent.ts';

/** A call that succeeded, with what it takes to take it back. */
export type FinishedCall = { readonly tool: string; readonly input: unknown; readonly result: unknown };

/** The calls of one guarded operation: those under way, and those that succeeded, in the order in which they did. */
export class OpenCalls {
  readonly #call: Turn['call'];
  readonly #open = new Set<Promise<unknown>>();
  readonly #finished: FinishedCall[] = [];
  #isOver = false;

  constructor(call: Turn['call']) {
    this.#call = call;
  }

  /** Refused once the operation has ended: nobody would take the call back. */
  async call(tool: string, input: unknown): Promise<unknown> {
    if (this.#isOver) throw new ClosedError(`The operation has ended, so "${tool}" was not called.`);
    const work = this.#callAndNote(tool, input);
    this.#open.add(work);
    const forget = (): void => void this.#open.delete(work);
    work.then(forget, forget);
    return work;
  }

  async #callAndNote(tool: string, input: unknown): Promise<unknown> {
    const result = await this.#call(tool, input);
    this.#finished.push({ tool, input, result });
    return result;
  }

  /** Lets no other call begin and waits for those under way; returns those that succeeded. */
  async end(): Promise<readonly FinishedCall[]> {
    this.#isOver = true;
    while (this.#open.size > 0) await Promise.allSettled(this.#open);
    return this.#finished;
  }
}
