import { ConflictError, InvalidInputError, NotFoundError } from '../../core/errors.ts';
import { checkOptions, flag, string } from '../../core/options.ts';
import type { Transcript } from './transcript.ts';
import type { TranscriptView } from './transcript-state.ts';

/** A tool call that waits for a person, and what was answered. */
export type PendingApproval = {
  readonly callId: string;
  readonly tool: string;
  readonly arguments: string;
  readonly agent: string;
  readonly answer?: ApprovalAnswer;
};

/** What a person says to a tool call. */
export type ApprovalAnswer = { readonly approve: boolean; readonly message?: string; readonly by?: string };

/** A run that waits for a person, as its framework saves it, and how many items there were then. */
export type SuspendedRun = {
  readonly runState: unknown;
  readonly approvals: readonly PendingApproval[];
  readonly length?: number;
};

/** The run that waits for a person beside the items of a transcript; null if none does. */
export function suspendedIn({ extra }: TranscriptView<unknown>): SuspendedRun | null {
  return extra as SuspendedRun | null;
}

/** Changes what waits, in a checkpoint; undefined changes nothing. */
export async function changeSuspended(
  transcript: Transcript,
  trigger: string,
  update: (before: SuspendedRun | null, view: TranscriptView<unknown>) => SuspendedRun | undefined,
): Promise<void> {
  const edit = (view: TranscriptView<unknown>) => {
    const extra = update(suspendedIn(view), view);
    return extra === undefined ? undefined : { keep: view.length, add: [], extra };
  };
  await transcript.change({ trigger, edit });
}

/** Answers for a tool call, once: another answer is refused with a ConflictError. */
export async function answerCall(transcript: Transcript, callId: string, answer: ApprovalAnswer): Promise<void> {
  checkOptions(answer, { approve: { required: flag }, message: string, by: string }, 'answer()');
  if (answer.approve && answer.message !== undefined)
    throw new InvalidInputError('An approval tells the agent nothing, so its "message" would be lost. Leave it out.');
  await changeSuspended(transcript, 'approval_answered', (run) => {
    const found = run?.approvals.find((approval) => approval.callId === callId);
    if (run === null || found === undefined) throw noSuchCall(callId, run);
    const approvals = run.approvals.map((one) => (one === found ? { ...one, answer } : one));
    if (found.answer === undefined) return { ...run, approvals };
    if (found.answer.approve === answer.approve && found.answer.message === answer.message) return undefined;
    throw new ConflictError(
      `Call ${callId} was ${found.answer.approve ? 'approved' : 'rejected'} already${found.answer.by === undefined ? '' : ` by ${found.answer.by}`}. An answer stands; it cannot be changed.`,
      { details: { callId, answer: found.answer } },
    );
  });
}

function noSuchCall(callId: string, run: SuspendedRun | null): NotFoundError {
  const waiting = run?.approvals.map((approval) => approval.callId).join(', ');
  return new NotFoundError(
    `No call ${callId} waits for an answer here${waiting === undefined ? '' : ` (there is: ${waiting})`}.`,
    { details: { callId } },
  );
}
