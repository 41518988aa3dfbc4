import { ConflictError } from '../../core/errors.ts';
import { Serial } from '../../core/time/serial.ts';
import { HttpError } from './problem.ts';

/** A change that was asked for. */
export type ChangeRequest = {
  readonly idempotencyKey: string | undefined;
  /** What was asked, to tell a repetition from another request with the same key. */
  readonly fingerprint: string;
  readonly ifMatch: string | undefined;
  /** The ETag of the session that is changed; undefined if none is. */
  readonly readTag: () => Promise<string | undefined>;
};

type Known = { readonly fingerprint: string; readonly response: Promise<Response> };

/** Keys are remembered for as many changes as this. */
const MAX_KEYS = 1_000;

/** Makes changes one after the other, each key once, and only if the session is as the client saw it. */
export class Changes {
  readonly #known = new Map<string, Known>();
  /** Between the look at an ETag and the change no other request of this server comes in. */
  readonly #line = new Serial();

  async make(request: ChangeRequest, change: () => Promise<Response>): Promise<Response> {
    const { idempotencyKey: key, fingerprint } = request;
    const known = key === undefined ? undefined : this.#known.get(key);
    if (known !== undefined && known.fingerprint !== fingerprint)
      throw new ConflictError(`The Idempotency-Key "${key}" was used for another request. Use a new one.`);
    if (known !== undefined) return (await known.response).clone();
    const response = this.#line.run(async () => {
      await checkMatch(request);
      return change();
    });
    if (key !== undefined) this.#remember(key, { fingerprint, response });
    return (await response).clone();
  }

  /** What failed may be tried again with the same key. */
  #remember(key: string, known: Known): void {
    this.#known.set(key, known);
    known.response.catch(() => this.#known.delete(key));
    const [oldest] = this.#known.keys();
    if (this.#known.size > MAX_KEYS && oldest !== undefined) this.#known.delete(oldest);
  }
}

async function checkMatch({ ifMatch, readTag }: ChangeRequest): Promise<void> {
  if (ifMatch === undefined || ifMatch === '*') return;
  const tag = await readTag();
  const known = ifMatch.split(',').map((each) => each.trim().replace(/^W\//, ''));
  if (tag === undefined || known.includes(tag)) return;
  throw new HttpError(412, 'CONFLICT', {
    message: 'The session changed since it was read. Read it again and retry.',
    details: { found: tag },
  });
}
