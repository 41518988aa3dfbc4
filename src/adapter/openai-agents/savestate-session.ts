import { randomUUID } from 'node:crypto';
import type {
  AgentInputItem,
  Model,
  ModelProvider,
  RunState,
  RunToolApprovalItem,
  Session,
  SessionHistoryMutation,
  SessionHistoryRewriteArgs,
  SessionHistoryTransactionArgs,
  Tool,
} from '@openai/agents-core';
import { ConflictError, InvalidInputError, NotFoundError } from '../../core/errors.ts';
import { accepts, checkOptions, checkValue, having, isRecord, listOf, record, wholeFrom } from '../../core/options.ts';
import { name, parseName, type SessionId } from '../../core/record/id.ts';
import type { ChunkStorage } from '../../storage/contract.ts';
import { type AdapterStorageOptions, toOptions } from '../adapter-storage.ts';
import { encodePart } from '../session-name.ts';
import {
  type ApprovalAnswer,
  answerCall,
  changeSuspended,
  type PendingApproval,
  suspendedIn,
} from '../transcript/approvals.ts';
import { CallLog } from '../transcript/call-log.ts';
import type { OperationOptions, Transcript } from '../transcript/transcript.ts';
import { isSameItems, type TranscriptView } from '../transcript/transcript-state.ts';
import { Transcripts } from '../transcript/transcripts.ts';
import { importAgents, recordModel, recordTool } from './run-recorder.ts';

/** How a SavestateSession is made. */
export type SavestateSessionOptions = AdapterStorageOptions & {
  /** Default: a new one. */
  readonly sessionId?: string;
  /** Default: the branch that a rewind made current, else `main`. */
  readonly branch?: string;
};

/** What is needed of a `RunState` to suspend it. */
type InterruptedRun = { getInterruptions(): RunToolApprovalItem[]; toString(): string };
type AnyAgent = Parameters<typeof RunState.fromString>[0];

/**
 * The history of a conversation of the OpenAI Agents SDK: pass it as `session`. With `recordedModel` and `recordedTool` a run that died
 * goes on where it was; `suspend`, `answer` and `resume` let anybody answer for a tool call, in any process.
 */
export class SavestateSession implements Session {
  readonly #id: string;
  readonly #transcript: Transcript<AgentInputItem>;
  readonly #calls: CallLog;
  /** Calls and results that the resumed run added before it died: it adds the same again. */
  #left: AgentInputItem[] = [];

  constructor(storageOrOptions: ChunkStorage | SavestateSessionOptions, sessionId?: string);
  constructor(...[given, sessionId, ...further]: [given: ChunkStorage | SavestateSessionOptions, sessionId?: string]) {
    const checks = { sessionId: name, branch: name };
    const options: SavestateSessionOptions = toOptions([given, ...further], checks, 'SavestateSession');
    if (sessionId !== undefined && options.sessionId !== undefined)
      throw new InvalidInputError('Two session ids were given. Leave one out.');
    this.#id = parseName(sessionId ?? options.sessionId ?? randomUUID(), 'A session id');
    const transcripts = Transcripts.of<AgentInputItem>(options, 'openai-agents', 'callId');
    const place = parseName(`openai/${encodePart(this.#id)}`, 'A session id') as SessionId;
    this.#transcript = transcripts.open(place, options.branch);
    this.#calls = new CallLog(transcripts.engine, `${place}/runs` as SessionId);
  }

  async getSessionId(): Promise<string> {
    return this.#id;
  }

  /** The items, or the last ones of them, oldest first. */
  async getItems(limit?: number): Promise<AgentInputItem[]> {
    if (limit === undefined) await this.#calls.begin();
    return this.#transcript.load(limit);
  }

  async addItems(items: AgentInputItem[]): Promise<void> {
    const left = [...this.#left];
    const isNew = (item: AgentInputItem): boolean => {
      const at = left.findIndex((one) => isSameItems([one], [item]));
      return at < 0 || left.splice(at, 1).length === 0;
    };
    await this.#append(checkItems(items, 'addItems()').filter(isNew), {});
    if (this.#left.length > 0) this.#left = left;
  }

  async popItem(): Promise<AgentInputItem | undefined> {
    await this.#settle(); // what is asked again is answered anew
    return this.#transcript.pop();
  }

  /** Removes all items; those before stay in the session's history of checkpoints. */
  async clearSession(): Promise<void> {
    await this.#settle();
    await this.#transcript.clear();
  }

  /** Changes the history in one step; repeated with its operation id it is done once. */
  async applyHistoryTransaction(args: SessionHistoryTransactionArgs): Promise<void> {
    checkValue(args, record, 'What is given to applyHistoryTransaction()');
    const { operationId, transaction } = args;
    if (typeof operationId !== 'string' || operationId.trim() === '')
      throw new InvalidInputError('The operation id of a history transaction must not be empty.');
    checkValue(transaction, record, 'The transaction of applyHistoryTransaction()');
    const { type } = transaction;
    if (type === 'append_items') return this.#append(checkItems(transaction.items, type), { operationId });
    if (type !== 'replace_suffix') throw unknownChange('transaction', type);
    const expected = checkItems(transaction.expectedSuffix, type);
    const replacement = checkItems(transaction.replacement, type);
    await this.#add(replacement, (extra) =>
      this.#transcript.replaceSuffix({ expected, replacement }, { operationId, extra }),
    );
    this.#left = [];
  }

  /** Replaces function calls by their ids, all in one step. */
  async applyHistoryMutations(args: SessionHistoryRewriteArgs): Promise<void> {
    checkValue(args, record, 'What is given to applyHistoryMutations()');
    const { mutations } = args;
    checkValue(mutations, listOf(record), 'The mutations of applyHistoryMutations()');
    for (const { type } of mutations) if (type !== 'replace_function_call') throw unknownChange('mutation', type);
    checkItems(
      mutations.map(({ replacement }) => replacement),
      'applyHistoryMutations()',
    );
    const about = ['mutate', this.#transcript.take(mutations.map(({ replacement }) => replacement))];
    const edit = (view: TranscriptView<AgentInputItem>) => mutate(view, mutations);
    await this.#transcript.change({ trigger: 'items_replaced', about, edit });
  }

  /** Puts a compacted history in the place of all items; those before stay in the session's history of checkpoints. */
  async replaceHistoryWithCompaction(items: AgentInputItem[]): Promise<void> {
    const add = this.#transcript.take(checkItems(items, 'replaceHistoryWithCompaction()'));
    this.#left = [];
    await this.#transcript.change({
      trigger: 'items_compacted',
      about: ['compact', add],
      edit: () => ({ keep: 0, add }),
    });
  }

  /** Makes a branch that holds the first items, by default all; open it with the option `branch`. */
  async fork(options: { readonly branch: string; readonly at?: number }): Promise<void> {
    checkOptions(options, { branch: { required: name }, at: wholeFrom(0) }, 'fork()');
    await this.#transcript.fork(options);
  }

  /** A model whose answers are recorded: a run that is begun again asks for none twice. */
  recordedModel(model: Model): Model {
    checkValue(model, having('getResponse', 'getStreamedResponse'), 'The model of recordedModel()');
    return recordModel(this.#calls, model);
  }

  /** A provider of such models. */
  recordedProvider(provider: ModelProvider): ModelProvider {
    checkValue(provider, having('getModel'), 'The provider of recordedProvider()');
    return { getModel: async (name) => recordModel(this.#calls, await provider.getModel(name)) };
  }

  /** A function tool whose results are recorded; it gets `idempotencyKey` in its details. Other tools are left as they are. */
  recordedTool<Given extends Tool>(tool: Given): Given {
    checkValue(tool, accepts('a tool, with a type and a name', isTool), 'The tool of recordedTool()');
    return recordTool(this.#calls, tool);
  }

  /** Saves an interrupted run, so that anybody can answer for its tool calls. */
  async suspend(state: InterruptedRun): Promise<readonly PendingApproval[]> {
    checkValue(state, having('getInterruptions'), 'The state of suspend()');
    const approvals = state.getInterruptions().map(describeApproval);
    if (approvals.length === 0)
      throw new InvalidInputError('This run waits for nobody. Give the state of an interrupted run.');
    const runState: unknown = JSON.parse(state.toString());
    await changeSuspended(this.#transcript, 'approval_requested', (_, view) => {
      refuseOther(openCalls(view), approvals);
      return { runState, approvals, length: view.length };
    });
    return approvals;
  }

  /** The tool calls that wait for an answer. */
  async pending(): Promise<readonly PendingApproval[]> {
    const suspended = suspendedIn(await this.#transcript.read());
    return (suspended?.approvals ?? []).filter(({ answer }) => answer === undefined);
  }

  /** Answers for a tool call, once: another answer is refused with a ConflictError. */
  async answer(callId: string, answer: ApprovalAnswer): Promise<void> {
    await answerCall(this.#transcript, callId, answer);
  }

  /** The suspended run with its answers: pass it to `run` in the place of an input. */
  async resume<Given extends AnyAgent>(agent: Given): Promise<RunState<unknown, Given>> {
    const view = await this.#transcript.read();
    const suspended = suspendedIn(view);
    const details = { sessionId: this.#id };
    if (suspended === null)
      throw new NotFoundError(`Session "${this.#id}" has no suspended run. Begin one with run().`, { details });
    const { RunState } = await importAgents();
    const state = await RunState.fromString<unknown, Given>(agent, JSON.stringify(suspended.runState));
    for (const item of state.getInterruptions()) {
      const { callId } = describeApproval(item);
      const answer = suspended.approvals.find((approval) => approval.callId === callId)?.answer;
      if (answer?.approve === true) state.approve(item);
      else if (answer !== undefined)
        state.reject(item, answer.message === undefined ? {} : { message: answer.message });
    }
    this.#left = view.itemsFrom(suspended.length ?? view.length).filter((item) => 'callId' in item);
    return state;
  }

  /** Deletes the session with its whole history. */
  async delete(): Promise<void> {
    await this.#transcript.delete();
    await this.#calls.delete();
  }

  #append(items: AgentInputItem[], options: OperationOptions): Promise<void> {
    return this.#add(items, (extra) => this.#transcript.append(items, { ...options, extra }));
  }

  /** An outcome ends the run that waits, or was resumed. That of another run leaves it, and its recordings, as they are. */
  async #add(
    items: AgentInputItem[],
    save: (extra: (view: TranscriptView<AgentInputItem>) => null | undefined) => Promise<void>,
  ): Promise<void> {
    let isEnd = isOutcome(items);
    await save((view) => {
      isEnd = isOutcome(items) && openCalls(view, items).length === 0;
      return isEnd ? null : undefined;
    });
    if (isEnd) await this.#settle();
  }

  #settle(): Promise<void> {
    this.#left = [];
    return this.#calls.settle();
  }
}

function checkItems(items: AgentInputItem[], of: string): AgentInputItem[] {
  checkValue(items, listOf(accepts('an item of a history, which is an object', isRecord)), `The items of ${of}`);
  return items;
}

function isTool(value: unknown): boolean {
  return isRecord(value) && typeof value.type === 'string' && typeof value.name === 'string';
}

/** Whether items end with what a run came to: the assistant's words. Calls and results are followed by more. */
function isOutcome(items: readonly AgentInputItem[]): boolean {
  const last = items.at(-1);
  return last !== undefined && 'role' in last && last.role === 'assistant';
}

/** The calls of the suspended run that are without a result, which each gets before that run ends. */
function openCalls(view: TranscriptView<unknown>, added: readonly AgentInputItem[] = []): string[] {
  const { approvals } = suspendedIn(view) ?? { approvals: [] };
  const lastOf = (items: readonly unknown[], callId: string) =>
    (items as readonly AgentInputItem[]).findLast((item) => 'callId' in item && item.callId === callId);
  const isOpen = (callId: string): boolean =>
    (lastOf(added, callId) ?? lastOf(view.outlines, callId))?.type === 'function_call';
  return approvals.map(({ callId }) => callId).filter(isOpen);
}

/** A run may stop again and again; another one would take its place, and nobody could answer it any more. */
function refuseOther(waiting: readonly string[], approvals: readonly PendingApproval[]): void {
  const lost = waiting.filter((callId) => !approvals.some((approval) => approval.callId === callId));
  if (lost.length === 0) return;
  throw new ConflictError(
    `Another run waits in this session (${lost.join(', ')}); nothing was changed. Resume that one first and let it end, or give it up with clearSession().`,
    { details: { waiting: lost } },
  );
}

function mutate(view: TranscriptView<AgentInputItem>, mutations: readonly SessionHistoryMutation[]) {
  const before = view.itemsFrom(0);
  const after = mutations.reduce(replaceCall, before);
  const keep = before.findIndex((item, at) => item !== after[at]);
  return keep < 0 ? undefined : { keep, add: after.slice(keep) };
}

/** The first call of this id is replaced; others of the same id are what it was before. */
function replaceCall(items: AgentInputItem[], { callId, replacement }: SessionHistoryMutation): AgentInputItem[] {
  const isCall = (item: AgentInputItem): boolean => item.type === 'function_call' && item.callId === callId;
  const first = items.findIndex(isCall);
  return items.flatMap((item, at) => (at === first ? [structuredClone(replacement)] : isCall(item) ? [] : [item]));
}

function unknownChange(kind: string, type: unknown): InvalidInputError {
  return new InvalidInputError(
    `"${String(type)}" is no history ${kind} that is known; nothing was changed. Update savestate.`,
  );
}

function describeApproval({ rawItem, agent, toolName }: RunToolApprovalItem): PendingApproval {
  const call = rawItem as { readonly [Field in 'callId' | 'id' | 'name' | 'arguments']?: string };
  const { callId = call.id ?? '', name: tool = toolName ?? rawItem.type, arguments: given = '' } = call;
  return { callId, tool, arguments: given, agent: agent.name };
}
