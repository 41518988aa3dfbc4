import { types } from 'node:util';
import { withoutUndefined } from '../../core/defined.ts';
import { InvalidInputError, ModelError, messageOf, NotFoundError } from '../../core/errors.ts';
import { freezeState } from '../../core/freeze.ts';
import { describeValue, isRecord } from '../../core/options.ts';
import type { CodeBlock, CodeExecutionConfig, CodeExecutor, CodeResult } from '../code/code-executor.ts';
import type {
  CallOptions,
  ChatModel,
  ModelMessage,
  ModelReply,
  ModelRequest,
  ModelSettings,
  ToolCall,
} from '../model/chat-model.ts';
import { requestSettings } from '../model/llm-config.ts';
import { type CaptureContext, captureWorkspace } from '../workspace/capture-workspace.ts';
import type { WorkspaceCache } from '../workspace/workspace-cache.ts';
import { resolveWorkspaceOptions } from '../workspace/workspace-options.ts';
import type { WorkspaceState } from '../workspace/workspace-state.ts';
import type { AgentRegistry } from './agent-registry.ts';
import type { AgentState, AgentTotals } from './agent-state.ts';
import type { Effects } from './effects.ts';
import { callTool, describeTool, failedOutcome, type Tool, type ToolOutcome } from './tool.ts';

/** What a turn needs: whose it is, what was said, and the world. */
export type TurnInput = {
  readonly state: Pick<AgentState, 'name' | 'maxToolRounds' | 'totals'>;
  readonly model: ChatModel;
  readonly systemMessage: string;
  readonly messages: readonly ModelMessage[];
  readonly tools: readonly Tool[];
  /** How the model is to answer: part of the request, so that a change of it makes a recorded run diverge. */
  readonly settings?: ModelSettings | undefined;
  readonly effects: Effects;
  readonly signal?: AbortSignal | undefined;
  readonly onText?: ((delta: string) => void) | undefined;
};

/** What a model said and did until it had no more tools to call. */
export type Turn = {
  readonly content: string;
  readonly messages: readonly ModelMessage[];
  readonly totals: AgentTotals;
};

/** Lets a model speak and call tools until it is done. Every call is an effect, so a turn that a crash cut short goes on where it was. */
export async function takeTurn(input: TurnInput): Promise<Turn> {
  const said: ModelMessage[] = [];
  let { totals } = input.state;
  for (let round = 1; ; round++) {
    const reply = await askModel(input, said, round);
    totals = addReply(totals, reply);
    said.push(...reply.messages);
    if (reply.toolCalls.length === 0) return { content: reply.text, messages: said, totals };
    const isOver = round >= input.state.maxToolRounds;
    const content = [];
    // One after the other: their order is part of what is recorded. Some providers take no request in which a call has no answer.
    for (const call of reply.toolCalls)
      content.push(toResult(call, isOver ? failedOutcome(NO_MORE_CALLS) : await answerCall(input, call)));
    said.push({ role: 'tool', content });
    if (isOver) return { content: reply.text, messages: said, totals };
    totals = { ...totals, toolCalls: totals.toolCalls + reply.toolCalls.length };
  }
}

const NO_MORE_CALLS = 'No more tools may be called in this turn.';

/** Whoever leads a team: which model thinks for it, and what it has used. */
export type Leader = Pick<AgentState, 'name' | 'modelId' | 'llmConfig' | 'totals'>;

/** Lets the model of a leader speak, without tools. */
export async function askLeader(
  { name, modelId, llmConfig, totals }: Leader,
  said: Pick<TurnInput, 'systemMessage' | 'messages'>,
  { registry, effects, signal }: Pick<TurnInput, 'effects' | 'signal'> & { readonly registry: AgentRegistry },
): Promise<Turn> {
  const model = registry.modelFor({ name, modelId, llmConfig });
  if (model === undefined) throw new InvalidInputError(`"${name}", who leads the team, has no model. Give it one.`);
  const state = { name, maxToolRounds: 1, totals };
  const settings = llmConfig === null ? undefined : requestSettings(llmConfig);
  return takeTurn({ ...said, state, model, tools: [], settings, effects, signal });
}

async function askModel(input: TurnInput, said: readonly ModelMessage[], round: number): Promise<ModelReply> {
  const { state, model, tools, effects, signal, onText } = input;
  const request: ModelRequest = {
    ...(input.systemMessage !== '' && { system: input.systemMessage }),
    messages: [...input.messages, ...said],
    ...(input.settings !== undefined && { settings: input.settings }),
    // In the last round the model must speak: a circle of calls ends with words.
    ...(tools.length > 0 && {
      tools: tools.map(describeTool),
      ...(round >= state.maxToolRounds && { toolChoice: 'none' as const }),
    }),
  };
  const heard: Promise<unknown>[] = [];
  const reply = await effects.run(
    { kind: 'model', name: state.name, input: { model: model.id, request }, signal },
    async (attempt) =>
      replyOf(
        model,
        request,
        withoutUndefined({
          idempotencyKey: attempt.idempotencyKey,
          signal: attempt.signal,
          onText: onText && ((delta: string) => hear(onText(delta), heard)),
        }),
      ),
  );
  await Promise.all(heard); // the reply is recorded by now, so that it is not asked for again
  return reply;
}

/** Keeps what an async listener promised: if it rejects the turn fails, as if it had thrown. */
function hear(told: unknown, heard: Promise<unknown>[]): void {
  if (!types.isPromise(told)) return;
  told.catch(() => undefined); // until it is awaited
  heard.push(told);
}

/** What a model replied. Whoever wrote it, what is no reply and no error is named. */
async function replyOf(model: ChatModel, request: ModelRequest, call: CallOptions): Promise<ModelReply> {
  const fail = (problem: string, cause?: unknown): never => {
    throw new ModelError(`The model ${model.id} ${problem}.`, { details: { model: model.id }, cause });
  };
  const reply: unknown = await model.reply(request, call).catch((error: unknown) => {
    if (error instanceof Error || call.signal?.aborted) throw error;
    return fail(`failed: ${messageOf(error)}`, error);
  });
  const { messages, toolCalls, usage, text } = isRecord(reply) ? reply : {};
  const isReply = Array.isArray(messages) && Array.isArray(toolCalls) && isRecord(usage) && typeof text === 'string';
  return isReply
    ? (reply as ModelReply)
    : fail(`replied ${describeValue(reply)}, without text, messages, toolCalls or usage`);
}

function addReply(totals: AgentTotals, { usage, costUsd = 0 }: ModelReply): AgentTotals {
  return {
    ...totals,
    modelCalls: totals.modelCalls + 1,
    inputTokens: totals.inputTokens + usage.inputTokens,
    outputTokens: totals.outputTokens + usage.outputTokens,
    costUsd: totals.costUsd + costUsd,
  };
}

function toResult({ id, name }: ToolCall, { isError, text }: ToolOutcome) {
  const type = isError ? ('error-text' as const) : ('text' as const);
  return { type: 'tool-result' as const, toolCallId: id, toolName: name, output: { type, value: text } };
}

async function answerCall({ tools, effects, signal }: TurnInput, call: ToolCall): Promise<ToolOutcome> {
  const tool = tools.find(({ name }) => name === call.name);
  if (call.problem !== undefined) return failedOutcome(call.problem);
  if (tool === undefined) {
    const names = tools.map(({ name }) => name).join(', ') || 'none';
    return failedOutcome(`There is no tool "${call.name}". There are: ${names}.`);
  }
  const effect = { kind: 'tool', name: call.name, input: { callId: call.id, input: call.input }, signal } as const;
  return effects.run(effect, (attempt) => callTool(tool, call.input, attempt));
}

/** What running the code of a message needs. */
export type CodeTurnInput = {
  readonly name: string;
  readonly config: Exclude<CodeExecutionConfig, false>;
  readonly executor: CodeExecutor;
  readonly cache: WorkspaceCache;
  readonly effects: Effects;
  readonly signal?: AbortSignal | undefined;
};

/** Runs the blocks of a message one after the other, up to the first that fails, and words what came of them. */
export async function runCode(blocks: readonly CodeBlock[], input: CodeTurnInput) {
  const code: CodeResult[] = [];
  const said: string[] = [];
  let workspace: WorkspaceState | undefined;
  for (const block of blocks) {
    const outcome = await runBlock(block, input);
    const { language, exitCode, output, failure } = outcome.result;
    code.push(outcome.result);
    const ending = failure === undefined ? 'ran' : `failed: ${failure.message}`;
    said.push(`exit code: ${exitCode ?? 'none'} (${language} ${ending})\noutput:\n${output}`);
    workspace = outcome.workspace ?? workspace;
    if (failure !== undefined) break;
  }
  // `workspace`: the working directory after the last block; undefined if it is not captured.
  return { content: said.join('\n\n'), code, workspace };
}

/** The files before any code ran: none if the folder is still to be made. */
export async function captureFolder(
  { workDir, capture }: CodeTurnInput['config'],
  context: CaptureContext,
): Promise<WorkspaceState | null> {
  if (capture === false) return null;
  try {
    return await captureWorkspace(workDir, capture, context);
  } catch (error) {
    if (!(error instanceof NotFoundError)) throw error;
    return freezeState({ entries: {}, skipped: [], ignored: resolveWorkspaceOptions(capture).ignore });
  }
}

/** What the files became is recorded with the run, so that a replay, which runs nothing, has the same files in its states. */
function runBlock(
  block: CodeBlock,
  input: CodeTurnInput,
): Promise<{ readonly result: CodeResult; readonly workspace?: WorkspaceState }> {
  const { name, config, executor, cache, effects, signal } = input;
  return effects.run({ kind: 'code', name, input: block, signal }, async (attempt) => {
    const { idempotencyKey, signal: stop } = attempt;
    const result = await executor.run(block, withoutUndefined({ idempotencyKey, signal: stop }));
    if (config.capture === false) return { result };
    return { result, workspace: await captureWorkspace(config.workDir, config.capture, { cache, signal }) };
  });
}
