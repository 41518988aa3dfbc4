import { AsyncLocalStorage } from 'node:async_hooks';
import { ConflictError, InvalidInputError } from '../../core/errors.ts';
import { Serial } from '../../core/time/serial.ts';

/** A conversation of one agent: a reply at a time. */
type Line = { readonly serial: Serial; replies: number; running?: Reply };

/** A reply, and the conversations that it waits for: its tools ask other agents. */
type Reply = { readonly waits: Set<{ readonly line: Line }> };

/** The replies that the caller is inside of, as a tool of an agent is; the innermost is the last. */
const inside = new AsyncLocalStorage<readonly Reply[]>();

/** Lets an agent reply in several conversations at once, and in each of them to one message after the other. */
export class ReplyLines {
  readonly #lines = new Map<string, Line>();

  async run<Result>(partner: string, reply: () => Promise<Result>): Promise<Result> {
    const outer = inside.getStore() ?? [];
    const line = this.#lines.get(partner) ?? { serial: new Serial(), replies: 0 };
    if (isHeldUpBy(line, outer)) throw refuse(partner, line.running !== undefined && outer.includes(line.running));
    this.#lines.set(partner, line);
    line.replies++;
    const [own, wait]: [Reply, { readonly line: Line }] = [{ waits: new Set() }, { line }];
    outer.at(-1)?.waits.add(wait);
    try {
      return await line.serial.run(() => {
        line.running = own;
        return inside.run([...outer, own], reply);
      });
    } finally {
      outer.at(-1)?.waits.delete(wait);
      if (--line.replies === 0) this.#lines.delete(partner);
    }
  }
}

/** Whether what runs there ends only after one of these replies did. */
function isHeldUpBy({ running, replies }: Line, outer: readonly Reply[]): boolean {
  if (running === undefined || replies === 0) return false;
  return outer.includes(running) || [...running.waits].some(({ line }) => isHeldUpBy(line, outer));
}

function refuse(partner: string, isOwn: boolean): InvalidInputError {
  const problem = isOwn
    ? 'it would wait for itself'
    : 'that waits for the agent that asks, and both would wait for ever';
  return new InvalidInputError(
    `The agent was asked to reply to "${partner}" from within its reply to "${partner}": ${problem}. Give another partner, or ask when the reply is there.`,
    { details: { partner } },
  );
}

/** The restores of an agent. Of a reply that was asked for before one, nothing may come into the restored state. */
export class Restores {
  count = 0;

  /** Waits for a part of a reply; throws if the agent was restored meanwhile. */
  async outlast<Part>(part: Promise<Part>): Promise<Part> {
    const before = this.count;
    const done = await part;
    if (before === this.count) return done;
    throw new ConflictError('The agent was restored while it replied, so that the reply is dropped. Ask it again.');
  }

  /** Does something unless the agent was restored since. */
  unless(before: number, change: () => void): void {
    if (before === this.count) change();
  }
}
