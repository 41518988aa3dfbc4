import { InvalidInputError, messageOf } from '../../core/errors.ts';
import type { CheckpointId, SessionId } from '../../core/record/id.ts';
import { sleep } from '../../core/time/timer.ts';
import type { AgentSaving } from '../agent/agent-saving.ts';
import { abortCut, type Cut, deleteReports, isOverdue, type MemberReport, readCuts, storeReport } from './cut.ts';
import { checkMember, type MemberState, saveMember } from './group-member.ts';

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

/** A cut is rare and takes a moment anyway; five reads a second are nothing to a storage. */
export const DEFAULT_POLL_MS = 200;

/** One process's part in a group: watches for cuts, and answers them, until it is closed. */
export class GroupMembership {
  readonly groupId: SessionId;
  readonly name: string;
  /** Resolves when the membership has ended; rejects if `onError` threw. */
  readonly ended: Promise<void>;
  readonly #saving: AgentSaving;
  readonly #options: JoinOptions;
  readonly #closing = new AbortController();
  #answered: CheckpointId | undefined;

  /** @internal A group is joined through `joinGroup`. */
  constructor(
    saving: AgentSaving,
    { groupId, name }: { readonly groupId: SessionId; readonly name: string },
    options: JoinOptions,
  ) {
    this.groupId = groupId;
    this.name = name;
    this.#saving = saving;
    this.#options = options;
    this.ended = this.#watch();
  }

  get #pollMs(): number {
    return this.#options.pollMs ?? DEFAULT_POLL_MS;
  }

  async #watch(): Promise<void> {
    const { signal } = this.#options;
    const end = signal === undefined ? this.#closing.signal : AbortSignal.any([signal, this.#closing.signal]);
    while (!end.aborted) {
      try {
        const [cut] = await readCuts(this.#saving.engine, { sessionId: this.groupId });
        if (cut?.members.includes(this.name) && cut.id !== this.#answered) await this.#takePart(cut);
      } catch (error) {
        this.#options.onError(error);
      }
      await Promise.allSettled([sleep(this.#saving.engine.ports, this.#pollMs, end)]); // less long if the end comes
    }
  }

  /** Answers one cut, and stays with it until it is over. */
  async #takePart(cut: Cut): Promise<void> {
    const { groupId, id, deadlineMs } = cut;
    this.#answered = id;
    let hasAnswered = false;
    const save = async (member: MemberState): Promise<CutOutcome> => {
      if (hasAnswered) throw new InvalidInputError('A member saves once for a cut.');
      hasAnswered = true;
      await this.#save(cut, member);
      return this.#awaitEnd(cut);
    };
    const refuse = async (error: unknown): Promise<void> => {
      if (hasAnswered) return;
      hasAnswered = true;
      await this.#report(cut, { failure: messageOf(error) });
    };
    try {
      await this.#options.onCut({ groupId, id, deadline: new Date(deadlineMs), save });
      await refuse(new InvalidInputError('onCut did not call cut.save'));
    } catch (error) {
      await refuse(error);
      throw error;
    } finally {
      await this.#awaitEnd(cut);
      await deleteReports(this.#saving.engine, cut); // also here: its coordinator may be dead, or this report came late
    }
  }

  async #save(cut: Cut, member: MemberState): Promise<void> {
    try {
      checkMember(member, `member "${this.name}" of cut.save()`);
      await this.#report(cut, await saveMember(this.#saving, member));
    } catch (error) {
      await Promise.allSettled([this.#report(cut, { failure: messageOf(error) })]); // else the coordinator waits until the deadline
      throw error;
    }
  }

  #report(cut: Cut, report: MemberReport): Promise<void> {
    return storeReport(this.#saving.engine, cut, { member: this.name, report });
  }

  /** Waits until the cut is over. Past its deadline its coordinator may be dead, and anyone may abort it. */
  async #awaitEnd(cut: Cut): Promise<CutOutcome> {
    const { engine } = this.#saving;
    const { id, groupId: sessionId } = cut;
    while ((await readCuts(engine, { sessionId }))[0]?.id === id) {
      if (await isOverdue(engine, cut)) await abortCut(engine, cut);
      else await sleep(engine.ports, this.#pollMs);
    }
    const isCommitted = (await engine.storage.readCheckpoint(id)) !== undefined;
    return isCommitted ? { isCommitted, checkpointId: id } : { isCommitted, reason: ABORTED };
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

const ABORTED = 'The cut was aborted: a member failed or did not answer, or it was not consistent.';
