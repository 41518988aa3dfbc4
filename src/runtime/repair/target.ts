import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { AgentOverride } from '../agent/agent-options.ts';
import type { ChatMessage } from '../agent/chat-message.ts';
import type { ToolOutcome } from '../agent/tool.ts';
import type { InterventionRecord } from './intervention.ts';

type BaseOfTarget = {
  /** The checkpoint that is restored. */
  readonly base: Checkpoint;
  /** The branch that recorded what came after it, if that is not its own. */
  readonly replayBranch?: string | undefined;
  readonly record: InterventionRecord;
};

/** Other words for one message, which is the last at the base: in the transcript, or generated and pending. */
export type MessageTarget = BaseOfTarget & {
  readonly kind: 'message';
  readonly index: number;
  readonly message: ChatMessage;
  readonly replacement: string;
};

/** Another prompt or model for one agent, or nothing. */
export type AgentTarget = BaseOfTarget & {
  readonly kind: 'agent';
  readonly agent?: string;
  readonly override?: AgentOverride;
};

/** Another answer of a tool: the turn is taken again, from the recording up to there. */
export type ToolTarget = BaseOfTarget & {
  readonly kind: 'tool_result';
  readonly speaker: string;
  readonly callId: string;
  readonly original: ToolOutcome;
  readonly replacement: ToolOutcome;
  /** What the calls after it, made at the same time, were answered: they are not made again. */
  readonly kept: ReadonlyMap<string, ToolOutcome>;
};

/** What an intervention comes to at a given checkpoint. */
export type Target = MessageTarget | AgentTarget | ToolTarget;

/** The same branch without the change, so that nothing but the change tells the two apart. */
export function toControl(target: Target): Target {
  const { originId, baseId } = target.record;
  const place = { ...target, record: { kind: 'none', originId, baseId } as const };
  switch (place.kind) {
    case 'message':
      return { ...place, replacement: place.message.content };
    case 'tool_result':
      return { ...place, replacement: place.original };
    case 'agent':
      return { kind: 'agent', base: place.base, record: place.record };
  }
}
