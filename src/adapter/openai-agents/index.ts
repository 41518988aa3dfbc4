/** OpenAI Agents SDK: histories as sessions, recorded runs, approvals that anybody answers. */

export type { ApprovalAnswer, PendingApproval, SavestateSessionOptions } from './savestate-session.ts';
export { SavestateSession } from './savestate-session.ts';
