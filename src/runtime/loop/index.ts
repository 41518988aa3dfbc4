export { AgentLoop, type StopOptions } from './agent-loop.ts';
export { formatAgentReport } from './format-agent-report.ts';
export type { AgentLoopOptions } from './loop-options.ts';
export type { LoopSettings } from './loop-settings.ts';
export { onTerminate, type SignalSource } from './on-terminate.ts';
export type { ProcessEnd, SuperviseOptions, SupervisionEvent } from './process/supervise-options.ts';
export {
  type SupervisedProcess,
  type SupervisionEnding,
  superviseProcess,
} from './process/supervise-process.ts';
export type {
  AgentMemory,
  AgentMind,
  AgentState,
  AgentTask,
  Job,
  LoopState,
  OperationalContext,
  RecoveryNote,
} from './state/agent-state.ts';
export type { ErrorText } from './state/error-text.ts';
export type { MailboxState, Message, PendingMessage, SetAsideMessage } from './state/mailbox.ts';
export type { SectionHooks, SectionName, SectionReport, Sections, SectionsReport } from './state/sections.ts';
export type { DriftReading, DriftWatch } from './turn/drift-watch.ts';
export type { LoopAgent, LoopTool, Turn } from './turn/loop-agent.ts';
export type { LoopEvent, LoopListener } from './turn/loop-events.ts';
export type { GuardOptions, Operation, OperationOutcome, UndoneCall } from './turn/operation.ts';
export type { LoopEnding } from './turn-loop.ts';
export { type AgentCheck, type AgentReport, type VerifyAgentOptions, verifyAgent } from './verify-agent.ts';
