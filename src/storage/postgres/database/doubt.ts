import { isOutcomeUnknown } from './postgres-error.ts';

/** Whether an attempt of a call may have been done although no answer came. It lasts as long as the call, over all attempts. */
export type Doubt = { exists: boolean };

/** Waits for the answer to something that lasts once it is done. */
export async function answerOf<Answer>(sent: Promise<Answer>, doubt: Doubt): Promise<Answer> {
  try {
    return await sent;
  } catch (error) {
    doubt.exists ||= isOutcomeUnknown(error);
    throw error;
  }
}
