export { AgentLoop, type StopOptions } from './agent-loop.ts';
export type {
  AgentMemory,
  AgentMind,
  AgentState,
  AgentTask,
  Job,
  LoopState,
  OperationalContext,
  RecoveryNote,
} from './agent-state.ts';
export type { DriftReading, DriftWatch } from './drift-watch.ts';
export type { ErrorText } from './error-text.ts';
export { formatAgentReport } from './format-agent-report.ts';
export type { LoopAgent, LoopTool, Turn } from './loop-agent.ts';
export type { LoopEvent, LoopListener } from './loop-events.ts';
export type { AgentLoopOptions } from './loop-options.ts';
export type { LoopSettings } from './loop-settings.ts';
export type { MailboxState, Message, PendingMessage, SetAsideMessage } from './mailbox.ts';
export { onTerminate, type SignalSource } from './on-terminate.ts';
export type { GuardOptions, Operation, OperationOutcome, UndoneCall } from './operation.ts';
export type { SectionHooks, SectionName, SectionReport, Sections, SectionsReport } from './sections.ts';
export type { ProcessEnd, SuperviseOptions, SupervisionEvent } from './supervise-options.ts';
export {
  type SupervisedProcess,
  type SupervisionEnding,
  superviseProcess,
} from './supervise-process.ts';
export type { LoopEnding } from './turn-loop.ts';
export { type AgentCheck, type AgentReport, type VerifyAgentOptions, verifyAgent } from './verify-agent.ts';
