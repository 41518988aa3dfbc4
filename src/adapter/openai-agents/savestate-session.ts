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
import { accepts, checkOptions, checkValue, flag, isRecord, listOf, string } from '../../core/options.ts';
import { name, parseName, type SessionId } from '../../core/record/id.ts';
import { Branching } from '../../manager/branch/branching.ts';
import type { Engine } from '../../manager/engine/engine.ts';
import { SessionOpener } from '../../manager/write/session-opener.ts';
import type { ChunkStorage } from '../../storage/contract.ts';
import { type AdapterStorageOptions, openAdapterEngine, toOptions } from '../adapter-storage.ts';
import { encodePart } from '../session-name.ts';
import type { OperationOptions, Transcript, TranscriptView } from '../transcript/transcript.ts';
import { Transcripts } from '../transcript/transcripts.ts';
import { importAgents, RunRecorder } from './run-recorder.ts';

/** How a SavestateSession is made. */
export type SavestateSessionOptions = AdapterStorageOptions & {
  /** Default: a new one. */
  readonly sessionId?: string;
  /** Default: the branch that a rewind made current, else `main`. */
  readonly branch?: string;
};

/** A tool call that waits for a person, and what was answered. */
export type PendingApproval = {
  readonly callId: string;
  readonly tool: string;
  readonly arguments: string;
  readonly agent: string;
  readonly answer?: ApprovalAnswer;
};

/** What a person says to a tool call. */
export type ApprovalAnswer = { readonly approve: boolean; readonly message?: string; readonly by?: string };

/** What is needed of a `RunState` to suspend it. */
type InterruptedRun = { getInterruptions(): RunToolApprovalItem[]; toString(): string };
type AnyAgent = Parameters<typeof RunState.fromString>[0];
type Suspended = { readonly runState: unknown; readonly approvals: readonly PendingApproval[] };
type Parts = {
  readonly engine: Engine;
  readonly opener: SessionOpener;
  readonly transcripts: Transcripts<AgentInputItem>;
};

/** Sessions of one storage share what makes them quick. */
const shared = new WeakMap<ChunkStorage, Parts>();

/**
 * The history of a conversation of the OpenAI Agents SDK: pass it as `session`. With `recordedModel` and `recordedTool` a run that died
 * goes on where it was; `suspend`, `answer` and `resume` let anybody answer for a tool call, in any process.
 */
export class SavestateSession implements Session {
  readonly #id: string;
  readonly #transcript: Transcript<AgentInputItem>;
  readonly #recorder: RunRecorder;

  constructor(storageOrOptions: ChunkStorage | SavestateSessionOptions, sessionId?: string) {
    const options: SavestateSessionOptions = toOptions(
      storageOrOptions,
      { sessionId: name, branch: name },
      'SavestateSession',
    );
    this.#id = parseName(sessionId ?? options.sessionId ?? randomUUID(), 'A session id');
    const { engine, opener, transcripts } = openParts(options);
    const place = parseName(`openai/${encodePart(this.#id)}`, 'A session id') as SessionId;
    this.#transcript = transcripts.open(place, options.branch);
    this.#recorder = new RunRecorder(engine, opener, `${place}/runs` as SessionId);
  }

  async getSessionId(): Promise<string> {
    return this.#id;
  }

  /** The items, or the last ones of them, oldest first. */
  async getItems(limit?: number): Promise<AgentInputItem[]> {
    if (limit === undefined) await this.#recorder.begin();
    return this.#transcript.load(limit);
  }

  async addItems(items: AgentInputItem[]): Promise<void> {
    checkValue(items, listOf(accepts('an item of a history, which is an object', isRecord)), 'The items of addItems()');
    await this.#append(items, {});
  }

  async popItem(): Promise<AgentInputItem | undefined> {
    await this.#recorder.settle(); // what is asked again is answered anew
    return this.#transcript.pop();
  }

  /** Removes all items; those before stay in the session's history of checkpoints. */
  async clearSession(): Promise<void> {
    await this.#recorder.settle();
    await this.#transcript.clear();
  }

  /** Changes the history in one step; repeated with its operation id it is done once. */
  async applyHistoryTransaction({ operationId, transaction }: SessionHistoryTransactionArgs): Promise<void> {
    if (typeof operationId !== 'string' || operationId.trim() === '')
      throw new InvalidInputError('The operation id of a history transaction must not be empty.');
    const { type } = transaction;
    if (type === 'append_items') return this.#append(transaction.items, { operationId });
    if (type !== 'replace_suffix') throw unknownChange('transaction', type);
    const { expectedSuffix: expected, replacement } = transaction;
    const isEnd = isOutcome(replacement);
    await this.#transcript.replaceSuffix({ expected, replacement }, { operationId, ...(isEnd && { extra: null }) });
    if (isEnd) await this.#recorder.settle();
  }

  /** Replaces function calls by their ids, all in one step. */
  async applyHistoryMutations({ mutations }: SessionHistoryRewriteArgs): Promise<void> {
    for (const { type } of mutations) if (type !== 'replace_function_call') throw unknownChange('mutation', type);
    const about = ['mutate', this.#transcript.take(mutations.map(({ replacement }) => replacement))];
    const edit = (view: TranscriptView<AgentInputItem>) => mutate(view, mutations);
    await this.#transcript.change({ trigger: 'items_replaced', about, edit });
  }

  /** Puts a compacted history in the place of all items; those before stay in the session's history of checkpoints. */
  async replaceHistoryWithCompaction(items: AgentInputItem[]): Promise<void> {
    const add = this.#transcript.take(items);
    await this.#transcript.change({
      trigger: 'items_compacted',
      about: ['compact', add],
      edit: () => ({ keep: 0, add }),
    });
  }

  /** Makes a branch that holds the first items, by default all; open it with the option `branch`. */
  async fork(options: { readonly branch: string; readonly at?: number }): Promise<void> {
    await this.#transcript.fork(options);
  }

  /** A model whose answers are recorded: a run that is begun again asks for none twice. */
  recordedModel(model: Model): Model {
    return this.#recorder.model(model);
  }

  /** A provider of such models. */
  recordedProvider(provider: ModelProvider): ModelProvider {
    return this.#recorder.provider(provider);
  }

  /** A function tool whose results are recorded; it gets `idempotencyKey` in its details. Other tools are left as they are. */
  recordedTool<Given extends Tool>(tool: Given): Given {
    return this.#recorder.tool(tool);
  }

  /** Saves an interrupted run, so that anybody can answer for its tool calls. */
  async suspend(state: InterruptedRun): Promise<readonly PendingApproval[]> {
    const approvals = state.getInterruptions().map(describeApproval);
    if (approvals.length === 0)
      throw new InvalidInputError('This run waits for nobody. Give the state of an interrupted run.');
    const runState: unknown = JSON.parse(state.toString());
    await this.#changeExtra('approval_requested', () => ({ runState, approvals }));
    return approvals;
  }

  /** The tool calls that wait for an answer. */
  async pending(): Promise<readonly PendingApproval[]> {
    const { extra } = await this.#transcript.read();
    return ((extra as Suspended | null)?.approvals ?? []).filter(({ answer }) => answer === undefined);
  }

  /** Answers for a tool call, once: another answer is refused with a ConflictError. */
  async answer(callId: string, answer: ApprovalAnswer): Promise<void> {
    checkOptions(answer, { approve: { required: flag }, message: string, by: string }, 'answer()');
    await this.#changeExtra('approval_answered', (suspended) => {
      const found = suspended?.approvals.find((approval) => approval.callId === callId);
      if (suspended === null || found === undefined) throw noSuchCall(callId, suspended);
      const approvals = suspended.approvals.map((one) => (one === found ? { ...one, answer } : one));
      if (found.answer === undefined) return { ...suspended, approvals };
      if (found.answer.approve === answer.approve && found.answer.message === answer.message) return undefined;
      throw new ConflictError(
        `Call ${callId} was ${found.answer.approve ? 'approved' : 'rejected'} already${found.answer.by === undefined ? '' : ` by ${found.answer.by}`}. An answer stands; it cannot be changed.`,
        { details: { callId, answer: found.answer } },
      );
    });
  }

  /** The suspended run with its answers: pass it to `run` in the place of an input. */
  async resume<Given extends AnyAgent>(agent: Given): Promise<RunState<unknown, Given>> {
    const suspended = (await this.#transcript.read()).extra as Suspended | null;
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
    return state;
  }

  /** Deletes the session with its whole history. */
  async delete(): Promise<void> {
    await this.#transcript.delete();
    await this.#recorder.delete();
  }

  async #append(items: AgentInputItem[], options: OperationOptions): Promise<void> {
    const isEnd = isOutcome(items);
    await this.#transcript.append(items, { ...options, ...(isEnd && { extra: null }) });
    if (isEnd) await this.#recorder.settle();
  }

  async #changeExtra(trigger: string, update: (before: Suspended | null) => Suspended | undefined): Promise<void> {
    const edit = ({ length, extra: before }: TranscriptView<AgentInputItem>) => {
      const extra = update(before as Suspended | null);
      return extra === undefined ? undefined : { keep: length, add: [], extra };
    };
    await this.#transcript.change({ trigger, about: undefined, edit });
  }
}

function openParts(options: AdapterStorageOptions): Parts {
  const { storage } = options;
  const isBare =
    storage !== undefined && Object.keys(options).every((key) => ['storage', 'sessionId', 'branch'].includes(key));
  const known = isBare ? shared.get(storage) : undefined;
  if (known !== undefined) return known;
  const engine = openAdapterEngine(options);
  const opener = new SessionOpener(engine, new Branching(engine));
  const parts = { engine, opener, transcripts: new Transcripts<AgentInputItem>(engine, 'openai-agents') };
  if (isBare) shared.set(storage, parts);
  return parts;
}

/** Whether items end with what a run came to: the assistant's words. Calls and results are followed by more. */
function isOutcome(items: readonly AgentInputItem[]): boolean {
  const last = items.at(-1);
  return last !== undefined && 'role' in last && last.role === 'assistant';
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
  const call = rawItem as {
    readonly callId?: string;
    readonly id?: string;
    readonly name?: string;
    arguments?: string;
  };
  const { callId = call.id ?? '', name: tool = toolName ?? rawItem.type, arguments: given = '' } = call;
  return { callId, tool, arguments: given, agent: agent.name };
}

function noSuchCall(callId: string, suspended: Suspended | null): NotFoundError {
  const waiting = suspended?.approvals.map((approval) => approval.callId).join(', ');
  return new NotFoundError(
    `No call ${callId} waits for an answer here${waiting === undefined ? '' : ` (there is: ${waiting})`}.`,
    {
      details: { callId },
    },
  );
}
