export type { SaveGroupOptions } from '../group/group.ts';
export type { GroupMember, MemberState } from '../group/group-member.ts';
export type { GroupMembership, JoinOptions } from '../group/group-membership.ts';
export type { RestoredGroup, RestoreGroupOptions } from '../group/group-restoring.ts';
export type { GroupState, InFlightMessage } from '../group/group-state.ts';
export type { AbandonedSession } from '../recovery/abandoned.ts';
export type {
  Recovery,
  RecoveryHandler,
  RecoveryOptions,
  RecoveryReport,
} from '../recovery/recovery-options.ts';
export { Workers } from './workers.ts';
