/** OpenAI Agents SDK: histories as sessions, recorded runs, approvals that anybody answers. */

export type { ApprovalAnswer, PendingApproval } from '../transcript/approvals.ts';
export type { SavestateSessionOptions } from './savestate-session.ts';
export { SavestateSession } from './savestate-session.ts';
