import { InvalidInputError, messageOf } from '../../core/errors.ts';
import type { CheckpointId, SessionId } from '../../core/record/id.ts';
import { sleep } from '../../core/time/timer.ts';
import { abortCut, type Cut, deleteReports, isOverdue, readCuts, storeReport } from './cut.ts';
import { checkMember, type MemberSaving, type MemberState, saveMember } from './group-member.ts';

/** How a cut ended. */
export type CutOutcome =
  | { readonly isCommitted: true; readonly checkpointId: CheckpointId }
  | { readonly isCommitted: false; readonly reason: string };

/** A cut as one of its members sees it. */
export type GroupCut = {
  readonly groupId: SessionId;
  /** The id that the group checkpoint will have. */
  readonly id: CheckpointId;
  readonly deadline: Date;
  /**
   * Saves this member's part; everything is read before this first awaits. Resolves when the cut is over, with how it ended; rejects if
   * this part could not be saved, and then the cut is aborted. Until it is over the member must neither send nor confirm messages.
   */
  save(member: MemberState): Promise<CutOutcome>;
};

/** How a process takes part in the cuts of a group. */
export type JoinOptions = {
  /** Called for each cut that asks for this member: stop sending, `await cut.save(...)`, go on. */
  readonly onCut: (cut: GroupCut) => Promise<unknown> | unknown;
  /** Told what `onCut` throws, and when watching has trouble; it goes on by itself. */
  readonly onError: (error: unknown) => void;
  /** How often to look for a cut; default 200. */
  readonly pollMs?: number | undefined;
  /** Ends the membership like `close`. */
  readonly signal?: AbortSignal | undefined;
};

/** Where and as whom a process takes part. */
export type MemberPlace = { readonly groupId: SessionId; readonly name: string };

/** A cut is rare and takes a moment anyway; five reads a second are nothing to a storage. */
export const DEFAULT_POLL_MS = 200;

/** One process's part in a group: watches for cuts, and answers them, until it is closed. */
export class GroupMembership {
  readonly groupId: SessionId;
  readonly name: string;
  /** Resolves when the membership has ended; rejects if `onError` threw. */
  readonly ended: Promise<void>;
  readonly #parts: MemberSaving;
  readonly #options: JoinOptions;
  readonly #closing = new AbortController();
  #answered: CheckpointId | undefined;

  constructor(parts: MemberSaving, { groupId, name }: MemberPlace, options: JoinOptions) {
    this.groupId = groupId;
    this.name = name;
    this.#parts = parts;
    this.#options = options;
    this.ended = this.#watch();
  }

  async #watch(): Promise<void> {
    const { pollMs = DEFAULT_POLL_MS, signal } = this.#options;
    const end = signal === undefined ? this.#closing.signal : AbortSignal.any([signal, this.#closing.signal]);
    while (!end.aborted) {
      try {
        const [cut] = await readCuts(this.#parts.engine, { sessionId: this.groupId });
        if (cut?.members.includes(this.name) && cut.id !== this.#answered) await this.#takePart(cut, pollMs);
      } catch (error) {
        this.#options.onError(error);
      }
      await Promise.allSettled([sleep(this.#parts.engine.ports, pollMs, end)]); // less long if the end comes
    }
  }

  /** Answers one cut, and stays with it until it is over. */
  async #takePart(cut: Cut, pollMs: number): Promise<void> {
    this.#answered = cut.id;
    const part = new CutPart(this.#parts, cut, { member: this.name, pollMs });
    try {
      await this.#options.onCut(part.view());
      await part.refuse(new InvalidInputError('onCut did not call cut.save'));
    } catch (error) {
      await part.refuse(error);
      throw error;
    } finally {
      await part.awaitEnd();
      await deleteReports(this.#parts.engine, cut); // also here: its coordinator may be dead, or this report came late
    }
  }

  /** Ends the membership; waits for a cut under way, which its deadline bounds. Idempotent. */
  async close(): Promise<void> {
    this.#closing.abort();
    await this.ended;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/** A member's part in one cut. */
class CutPart {
  readonly #parts: MemberSaving;
  readonly #cut: Cut;
  readonly #member: string;
  readonly #pollMs: number;
  #isAnswered = false;

  constructor(parts: MemberSaving, cut: Cut, { member, pollMs }: { readonly member: string; readonly pollMs: number }) {
    this.#parts = parts;
    this.#cut = cut;
    this.#member = member;
    this.#pollMs = pollMs;
  }

  view(): GroupCut {
    const { groupId, id, deadlineMs } = this.#cut;
    return { groupId, id, deadline: new Date(deadlineMs), save: (member) => this.#save(member) };
  }

  async #save(member: MemberState): Promise<CutOutcome> {
    if (this.#isAnswered) throw new InvalidInputError('A member saves once for a cut.');
    this.#isAnswered = true;
    const { engine } = this.#parts;
    try {
      checkMember(member, `member "${this.#member}" of cut.save()`);
      const report = await saveMember(this.#parts, member);
      await storeReport(engine, this.#cut, { member: this.#member, report });
    } catch (error) {
      await Promise.allSettled([this.#reportFailure(error)]); // else the coordinator waits until the deadline
      throw error;
    }
    return this.awaitEnd();
  }

  /** Tells the coordinator that this member does not take part, unless it has answered already. */
  async refuse(error: unknown): Promise<void> {
    if (this.#isAnswered) return;
    this.#isAnswered = true;
    await this.#reportFailure(error);
  }

  async #reportFailure(error: unknown): Promise<void> {
    const report = { failure: messageOf(error) };
    await storeReport(this.#parts.engine, this.#cut, { member: this.#member, report });
  }

  /** Waits until the cut is over. Past its deadline its coordinator may be dead, and anyone may abort it. */
  async awaitEnd(): Promise<CutOutcome> {
    const { engine } = this.#parts;
    const { id, groupId: sessionId } = this.#cut;
    while ((await readCuts(engine, { sessionId }))[0]?.id === id) {
      if (await isOverdue(engine, this.#cut)) await abortCut(engine, this.#cut);
      else await sleep(engine.ports, this.#pollMs);
    }
    const isCommitted = (await engine.storage.readCheckpoint(id)) !== undefined;
    return isCommitted ? { isCommitted, checkpointId: id } : { isCommitted, reason: ABORTED };
  }
}

const ABORTED = 'The cut was aborted: a member failed or did not answer, or it was not consistent.';
