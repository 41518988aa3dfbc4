import { channelsOf, fieldsOf, listMessages } from '../manager/revision/transcript.ts';
import { type AgentTotals, addTotals, NO_TOTALS } from '../runtime/agent/agent-state.ts';
import { isLoopState } from './state-view.ts';

/** What kind of thing a state is of. */
export type StateKind = 'group_chat' | 'fleet' | 'workflow_run' | 'loop' | 'thread' | 'messages' | 'state';

/** Who is in a state, and what they used up to there. */
export type StateUsage = {
  readonly kind: StateKind;
  readonly models: string[];
  readonly agents: string[];
  readonly messages?: number;
  /** Absent if the state says nothing of it. */
  readonly totals?: AgentTotals;
};

const KINDS: readonly StateKind[] = ['group_chat', 'fleet', 'workflow_run'];

/** Reads what a state tells about itself. */
export function usageOf(state: unknown): StateUsage {
  const fields = fieldsOf(state);
  const messages = listMessages(state);
  const agents = Object.entries(fieldsOf(fields.agents));
  const holders = [fields, ...agents.map(([, agent]) => fieldsOf(agent)), fieldsOf(fields.fleet)];
  const models = [...holders.map(modelOf), ...(messages ?? []).map((each) => readMetadata(each).model)];
  const totals = [...holders.map(({ totals: used }) => used), fieldsOf(fields.chat).selectorTotals].filter(isTotals);
  const said = (messages ?? []).map((each) => readMetadata(each).totals).filter(isTotals);
  const used = [...totals, ...said];
  return {
    kind: kindOf(state, messages !== undefined),
    models: [...new Set(models.filter((model) => model !== undefined))],
    agents: agents.map(([name]) => name),
    ...(messages !== undefined && { messages: messages.length }),
    ...(used.length > 0 && { totals: used.reduce(addTotals, NO_TOTALS) }),
  };
}

function kindOf(state: unknown, hasMessages: boolean): StateKind {
  const named = KINDS.find((kind) => kind === fieldsOf(state).kind);
  if (named !== undefined) return named;
  if (isLoopState(state)) return 'loop';
  if (channelsOf(state) !== undefined) return 'thread';
  return hasMessages ? 'messages' : 'state';
}

/** The model that settings name. */
export function modelOf({
  llmConfig,
  modelId,
  settings,
  model: named,
}: Readonly<Record<string, unknown>>): string | undefined {
  const candidates = [fieldsOf(llmConfig).model, modelId, named, fieldsOf(fieldsOf(settings).llmConfig).model];
  return candidates.find((model) => typeof model === 'string');
}

function isTotals(value: unknown): value is AgentTotals {
  const fields = fieldsOf(value);
  return Object.keys(NO_TOTALS).every((field) => typeof fields[field] === 'number');
}

/** What LangChain notes on the reply of a model. */
function readMetadata(message: unknown): {
  readonly model: string | undefined;
  readonly totals: AgentTotals | undefined;
} {
  const { usage_metadata: usage, response_metadata: response, data } = fieldsOf(message);
  if (usage === undefined && response === undefined && data !== undefined) return readMetadata(data);
  const { input_tokens: inputTokens, output_tokens: outputTokens } = fieldsOf(usage);
  const { model_name: model } = fieldsOf(response);
  const hasTokens = typeof inputTokens === 'number' && typeof outputTokens === 'number';
  return {
    model: typeof model === 'string' ? model : undefined,
    totals: hasTokens ? { ...NO_TOTALS, modelCalls: 1, inputTokens, outputTokens } : undefined,
  };
}
