import { AsyncLocalStorage } from 'node:async_hooks';
import { InvalidInputError } from '../../core/errors.ts';
import { Serial } from '../../core/time/serial.ts';

type Line = { readonly serial: Serial; replies: number };

/** Lets an agent reply in several conversations at once, and in each of them to one message after the other. */
export class ReplyLines {
  readonly #lines = new Map<string, Line>();
  /** The conversations that the caller is inside of, as a tool of the agent is. */
  readonly #inside = new AsyncLocalStorage<readonly string[]>();

  async run<Result>(partner: string, reply: () => Promise<Result>): Promise<Result> {
    const outer = this.#inside.getStore() ?? [];
    if (outer.includes(partner))
      throw new InvalidInputError(
        `The agent was asked to reply to "${partner}" from within its reply to "${partner}": it would wait for itself. Give another partner, or ask when the reply is there.`,
        { details: { partner } },
      );
    const line = this.#lines.get(partner) ?? { serial: new Serial(), replies: 0 };
    this.#lines.set(partner, line);
    line.replies++;
    try {
      return await line.serial.run(() => this.#inside.run([...outer, partner], reply));
    } finally {
      if (--line.replies === 0) this.#lines.delete(partner);
    }
  }
}
