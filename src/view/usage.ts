import { fieldsOf, listMessages } from '../manager/revision/transcript.ts';
import { type AgentTotals, addTotals, NO_TOTALS } from '../runtime/agent/agent-state.ts';
import type { Shape, usage } from './shapes.ts';
import { kindOf } from './state-view.ts';

/** Who is in a state, and what they used up to there. */
export type StateUsage = Shape<typeof usage>;

/** Reads what a state tells about itself. */
export function usageOf(state: unknown): StateUsage {
  const messages = listMessages(state);
  const holders = holdersOf(state);
  const models = [...holders.map(modelOf), ...(messages ?? []).map((each) => readMetadata(each).model)];
  const said = (messages ?? []).map((each) => readMetadata(each).totals).filter(isTotals);
  const used = [...totalsIn(state), ...said];
  return {
    kind: kindOf(state) ?? (messages === undefined ? 'state' : 'messages'),
    models: [...new Set(models.filter((model) => model !== undefined))],
    agents: Object.keys(fieldsOf(fieldsOf(state).agents)),
    ...(messages !== undefined && { messages: messages.length }),
    ...(used.length > 0 && { totals: used.reduce(addTotals, NO_TOTALS) }),
  };
}

/** What a state counts of its own, apart from what its messages say: a state of ours, of agents or of a team. */
export function totalsIn(state: unknown): readonly AgentTotals[] {
  const counted = [...holdersOf(state).map(({ totals }) => totals), fieldsOf(fieldsOf(state).chat).selectorTotals];
  return counted.filter(isTotals);
}

/** What in a state has settings and totals: itself, its agents, its fleet. */
function holdersOf(state: unknown): readonly Readonly<Record<string, unknown>>[] {
  const fields = fieldsOf(state);
  return [fields, ...Object.values(fieldsOf(fields.agents)).map(fieldsOf), fieldsOf(fields.fleet)];
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
export function readMetadata(message: unknown): {
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
