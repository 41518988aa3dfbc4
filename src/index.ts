export type { ErrorCode } from './core/errors.ts';
export { hasErrorCode, SavestateError } from './core/errors.ts';
export { Checkpoint } from './core/record/checkpoint.ts';
export type { CheckpointId, SessionId } from './core/record/id.ts';
export type { ClassCodec } from './core/value/class-codec.ts';
export { SecretRef } from './core/value/secret-ref.ts';
export type { AgentFactory, StatefulAgent } from './manager/agent/agent.ts';
export type { RestoreOptions } from './manager/agent/agent-saving.ts';
export type { ForkOptions } from './manager/branch/branching.ts';
export type { CheckpointComparison } from './manager/branch/compare.ts';
export type { CheckpointPage, ListFilter, ListPage, SessionTree } from './manager/branch/history.ts';
export { CheckpointManager } from './manager/checkpoint-manager.ts';
export type { StepAttempt, StepOptions } from './manager/effect/effect-log.ts';
export type { ManagerEvents } from './manager/engine/events.ts';
export type { Migration, RestoreProblem, RestoreReport } from './manager/engine/loading.ts';
export type { SaveOptions } from './manager/engine/save-options.ts';
export type { SaveGroupOptions } from './manager/group/group.ts';
export type { GroupMember, MemberState } from './manager/group/group-member.ts';
export type { GroupMembership, JoinOptions } from './manager/group/group-membership.ts';
export type { RestoredGroup, RestoreGroupOptions } from './manager/group/group-restoring.ts';
export type { GroupState, InFlightMessage } from './manager/group/group-state.ts';
export type { Lease, LeaseOptions } from './manager/lease/lease.ts';
export type { CheckpointManagerOptions } from './manager/manager-options.ts';
export { open } from './manager/open.ts';
export type { AbandonedSession } from './manager/recovery/abandoned.ts';
export type {
  Recovery,
  RecoveryHandler,
  RecoveryOptions,
  RecoveryReport,
} from './manager/recovery/recovery-options.ts';
export type { RetentionPolicy, Verdict } from './manager/retention/retention.ts';
export type { PruneResult } from './manager/retention/retention-runner.ts';
export type { Session, SessionOptions } from './manager/session/session.ts';
export type { ImportResult } from './manager/transfer/import.ts';
export type { VerifyReport } from './manager/verify/verify.ts';
export type { ChunkStorage } from './storage/contract.ts';
export { FileCheckpointStorage } from './storage/file/file-storage.ts';
export { InMemoryCheckpointStorage } from './storage/memory/memory-storage.ts';
export { SqliteCheckpointStorage } from './storage/sqlite/sqlite-storage.ts';
export type { CheckpointStorage } from './storage/whole/checkpoint-storage.ts';
