import { hasErrorCode, messageOf } from '../../core/errors.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { CheckpointId } from '../../core/record/id.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { SaveOptions } from '../../manager/engine/save-options.ts';
import type { Session } from '../../manager/session/session.ts';
import type { AgentTotals } from '../agent/agent-state.ts';
import { type ChatMessage, PERSON } from '../agent/chat-message.ts';
import type { Effects } from '../agent/effects.ts';
import {
  createRecall,
  type Lesson,
  learn,
  type MemoryOption,
  parseRunMemory,
  type Recall,
  type RunMemory,
  unsavedLessons,
} from '../agent/run-memory.ts';
import { type AskNow, findAnswer, isWaitingForInput } from './asking.ts';
import type { Difference } from './differences.ts';
import type { SessionFiles } from './files/session-files.ts';
import { GuardedTools } from './guarded-tools.ts';
import { type AnswersById, RequestAnswers } from './request-answers.ts';
import type { TeamKind, TeamTypes } from './team.ts';
import { fingerprintOf, type TeamFacts } from './team-facts.ts';
import { type Undone, UndoneCalls } from './undone-calls.ts';
import { MoveWorks } from './work.ts';

/** What a run may use besides its team. */
export type RunOptions<Team> = {
  readonly userId?: string;
  readonly signal?: AbortSignal;
  /** Called for each piece of text; if it throws or rejects, the run fails. */
  readonly onText?: (speaker: string, delta: string) => void;
  /** Called for each message; if it throws or rejects, the run fails. */
  readonly onMessage?: (message: ChatMessage) => void;
  /** Called when a checkpoint is durable. */
  readonly onCheckpoint?: (checkpoint: Checkpoint, team: Team) => void | Promise<void>;
  /** Long-term memory: fills `{memory}` in prompts, and learns what people and agents with the `store` flag say. */
  readonly memory?: MemoryOption;
  /** Said of every checkpoint of the run. */
  readonly metadata?: Readonly<Record<string, unknown>>;
};

/** Why a run stopped. All but `ended` can be continued as they are. */
export type Stop<End, Request> =
  | { readonly status: 'ended'; readonly end: End }
  | { readonly status: 'waiting'; readonly request: Request }
  | { readonly status: 'failed'; readonly error: unknown }
  | { readonly status: 'stopped' };

/** What came of a run. */
export type RunResult<End, Request> = Stop<End, Request> & {
  readonly sessionId: string;
  readonly branch: string;
  /** The last checkpoint; undefined if none could be stored. */
  readonly checkpointId: CheckpointId | undefined;
  readonly messages: readonly ChatMessage[];
  readonly totals: AgentTotals;
  /** How the code differs from the checkpoint that the run went on from. */
  readonly differences: readonly Difference[];
  /** Saves that failed. The run went on: what it did is in the next checkpoint. */
  readonly failedSaves: readonly unknown[];
};

/** What a checkpoint is saved for. */
export type SaveFacts<End> = { readonly end?: End; readonly error?: unknown };

/** The world as a running team sees it. */
export interface World<Of extends TeamTypes> {
  /** The calls of the move under way. */
  readonly effects: Effects;
  readonly signal: AbortSignal | undefined;
  /** Fills the `{memory}` blocks of prompts. */
  readonly recall: Recall | undefined;
  readonly onText: ((speaker: string, delta: string) => void) | undefined;
  readonly onMessage: ((message: ChatMessage) => void) | undefined;
  save(trigger: Of['trigger'], facts?: SaveFacts<Of['end']>): Promise<void>;
  /** Asks a person. Without an answer the run stops here and waits. */
  ask(question: Of['question']): Promise<Of['answer']>;
}

/** What a team does: one move after the other. Which one is next follows from its state alone, so it goes on from any checkpoint. */
export interface Script {
  move(): Promise<void>;
}

/** A change that a person makes of a team: durable, with who and why, before anything else is done. */
export type Edit<Of extends TeamTypes> = {
  readonly trigger: string;
  readonly author?: string | undefined;
  readonly reason?: string | undefined;
  readonly make: (team: Of['team'], world: World<Of>) => Promise<void>;
};

/** Where a team works, and with which code. */
export type Hold<Of extends TeamTypes> = {
  readonly kind: TeamKind<Of>;
  readonly team: Of['team'];
  readonly script: (world: World<Of>) => Script;
  readonly manager: CheckpointManager;
  readonly session: Session;
  readonly ask?: AskNow<Of['request']> | undefined;
  /** Answers to requests that an earlier run left pending, by their ids. */
  readonly answers?: AnswersById | undefined;
  readonly files?: SessionFiles | undefined;
  /** The team is not what the head says: it is saved for this before anything is done, or a crash would take the change with it. */
  readonly first?: Of['trigger'] | undefined;
  /** In place of that. */
  readonly edit?: Edit<Of> | undefined;
  readonly facts: TeamFacts;
  readonly differences?: readonly Difference[];
  /** What was done after the checkpoint that the session was rewound to. */
  readonly undone?: Undone | undefined;
};

/** These are not the agents' failures: going on would hide them. */
const FATAL = ['CONFLICT', 'CLOSED', 'STORAGE', 'CORRUPT', 'REPLAY_MISMATCH'] as const;

/** Saved in the middle of a move, with what it has called so far. */
const MID_MOVE = ['waiting_for_input', 'run_failed'];

/** `running` otherwise. */
const STATUS: Readonly<Record<string, string>> = {
  conversation_start: 'initializing',
  fleet_start: 'initializing',
  waiting_for_input: 'waiting_for_input',
  run_failed: 'error',
  conversation_end: 'completed',
  fleet_end: 'completed',
};

const SUMMARY_CHARS = 200;
/** The whole error is in the result and the error log; a header is read for every list entry. */
const REASON_CHARS = 2000;

/** Lets a team work in a session: every move is saved, every outside call recorded. */
export async function holdTeam<Of extends TeamTypes>(
  hold: Hold<Of>,
  options: RunOptions<Of['team']>,
): Promise<RunResult<Of['end'], Of['request']>> {
  const { session, team, files, differences = [] } = hold;
  const run = new TeamRun(hold, options);
  const { failedSaves } = run;
  const stop = await run.run().catch(async (error: unknown) => {
    await files?.finish({ failedSaves, error });
    throw error;
  });
  await files?.finish({ ...stop, failedSaves });
  return {
    ...stop,
    sessionId: session.id,
    branch: session.branch,
    checkpointId: session.head?.id,
    messages: team.record.messages,
    totals: team.totals,
    differences,
    failedSaves,
  };
}

/** A team at work: makes its calls, saves it, asks people, and tells those who follow it. */
class TeamRun<Of extends TeamTypes> implements World<Of> {
  readonly failedSaves: unknown[] = [];
  readonly effects: Effects;
  readonly recall: Recall | undefined;
  readonly signal: World<Of>['signal'];
  readonly onText: World<Of>['onText'];
  readonly onMessage: World<Of>['onMessage'];
  readonly #hold: Hold<Of>;
  readonly #options: RunOptions<Of['team']>;
  readonly #userId: string | undefined;
  readonly #memory: RunMemory | undefined;
  readonly #works: MoveWorks;
  readonly #inbox: RequestAnswers<Of['state'], Of['request']>;
  /** How often the move under way asked the same: whoever asks again was not content with the answer. */
  readonly #asked = new Map<string, number>();
  /** The last message that long-term memory was told. */
  #taught: ChatMessage | undefined;

  constructor(hold: Hold<Of>, options: RunOptions<Of['team']>) {
    const { kind, team, session, manager, undone } = hold;
    this.#hold = hold;
    this.#options = options;
    this.signal = options.signal;
    this.onText = options.onText;
    this.onMessage = options.onMessage;
    // What is done with a user's session is the user's, too: it is listed and forgotten with the rest.
    this.#userId = options.userId ?? session.head?.userId;
    this.#memory = parseRunMemory(options.memory, this.#userId);
    this.recall = createRecall(this.#memory, session, () => kind.situation(team));
    const saved = session.state === undefined ? [] : kind.worksOf(session.state);
    this.#works = new MoveWorks(session, () => kind.workOf(team), saved);
    const made = undone && new UndoneCalls(this.#works, (value) => session.digestOf(value), undone);
    this.effects = new GuardedTools(this.#works, session.state, made);
    this.#taught = team.record.messages.at(-1);
    this.#inbox = new RequestAnswers(manager, kind.requests);
  }

  /** Who answers where nobody says. */
  get #by(): string {
    return this.#options.userId ?? PERSON;
  }

  /** Runs until the team ends, waits for a person, fails, or is stopped. */
  async run(): Promise<Stop<Of['end'], Of['request']>> {
    const { team, session, first, edit, script, answers = {} } = this.#hold;
    await this.#inbox.giveAll({ sessionId: session.id, branch: session.branch }, answers, this.#by);
    await this.#remember();
    if (edit !== undefined) await this.#edit(edit);
    else if (first !== undefined && team.record.end === null) await this.#save(first, {}, this.#works.open);
    try {
      const moves = script(this);
      for (let { end } = team.record; ; { end } = team.record) {
        if (end !== null) return { status: 'ended', end: end as Of['end'] };
        this.signal?.throwIfAborted();
        this.#asked.clear();
        await moves.move();
      }
    } catch (error) {
      return this.#stop(error);
    }
  }

  async #edit({ make, ...said }: Edit<Of>): Promise<void> {
    const { team } = this.#hold;
    await make(team, this);
    this.#taught = team.record.messages.at(-1); // what was changed was said before
    await this.#store({ ...this.#describe(said.trigger, {}), ...said, type: 'manual' }, this.#works.open);
    await this.#tell();
  }

  /** Leaves the team in a state that can be continued, and says why it stopped. */
  async #stop(error: unknown): Promise<Stop<Of['end'], Of['request']>> {
    if (this.signal?.aborted) return { status: 'stopped' };
    if (isWaitingForInput(error)) {
      const request = error.request as Of['request'];
      const { kind, team } = this.#hold;
      const isOpen = Object.hasOwn(kind.requests.requestsOf(team.saveState()), request.id);
      if (!isOpen) await this.#open(request); // a replay came to its end
      return { status: 'waiting', request };
    }
    if (FATAL.some((code) => hasErrorCode(error, code))) throw error;
    await this.save('run_failed', { error });
    return { status: 'failed', error };
  }

  async ask(question: Of['question']): Promise<Of['answer']> {
    const { kind, team, manager } = this.#hold;
    const { ports } = manager.engine;
    const open = (request: Of['request']) => this.#open(request);
    const asking = { hold: this.#hold, inbox: this.#inbox, by: this.#by, open };
    const nth = (this.#asked.get(question.id) ?? 0) + 1;
    this.#asked.set(question.id, nth);
    const asked = nth === 1 ? question : { ...question, id: `${question.id}:${nth}` };
    const call = { kind: 'human', name: question.agent, input: question, signal: this.signal } as const;
    const answer = await this.effects.run(call, async ({ signal }) => {
      return kind.toAnswer(await findAnswer(asking, kind.toRequest(asked, team, ports.now()), signal));
    });
    kind.answered(team, asked.id, answer);
    return answer;
  }

  async #open(request: Of['request']): Promise<void> {
    this.#hold.kind.asks(this.#hold.team, request);
    await this.save('waiting_for_input');
  }

  async save(trigger: string, facts: SaveFacts<Of['end']> = {}): Promise<void> {
    if (MID_MOVE.includes(trigger)) return this.#save(trigger, facts, this.#works.open);
    this.#works.settle();
    return this.#save(trigger, facts, []);
  }

  async #save(trigger: string, facts: SaveFacts<Of['end']>, works: MoveWorks['open']): Promise<void> {
    try {
      await this.#store(this.#describe(trigger, facts), works);
    } catch (error) {
      // The disk may be back at the next move; whoever lost the branch must stop.
      if (!hasErrorCode(error, 'STORAGE')) throw error;
      this.failedSaves.push(error);
      return;
    }
    await this.#tell();
  }

  async #store(header: SaveOptions, works: MoveWorks['open']): Promise<void> {
    const { session, team } = this.#hold;
    const state = team.saveState();
    await session.save(works.length === 0 ? state : { ...state, works }, header);
  }

  #describe(trigger: string, facts: SaveFacts<Of['end']>): SaveOptions {
    const { kind, team, facts: code, undone } = this.#hold;
    const { last, place } = kind.describe(team, facts.end);
    return {
      type: trigger === 'run_failed' ? 'recovery' : 'auto',
      trigger,
      status: STATUS[trigger] ?? 'running',
      ...(this.#userId !== undefined && { userId: this.#userId }),
      ...('error' in facts && { reason: messageOf(facts.error).slice(0, REASON_CHARS) }),
      ...(last !== undefined && { contextSummary: `${last.name}: ${last.content}`.slice(0, SUMMARY_CHARS) }),
      fingerprint: fingerprintOf(code, team.saveState()),
      metadata: { ...this.#options.metadata, ...place, ...(undone && { rewoundTo: undone.rewoundTo }) },
    };
  }

  async #tell(): Promise<void> {
    const { kind, team, files, session } = this.#hold;
    const { head } = session;
    if (head === undefined) return;
    await files?.add(head);
    const { messages } = team.record;
    const said = messages.slice((this.#taught === undefined ? -1 : messages.lastIndexOf(this.#taught)) + 1);
    await this.#teach([...kind.requested(team, head.trigger), ...this.#lessons(said)], head);
    this.#taught = messages.at(-1);
    await this.#options.onCheckpoint?.(head, team);
  }

  /** Lets long-term memory learn what the head was saved with: a killed run may have saved it without. */
  async #remember(): Promise<void> {
    const { kind, team, session } = this.#hold;
    const { head, branch } = session;
    if (head?.branch !== branch) return;
    const unsaved = unsavedLessons(this.#lessons(team.record.messages), head.trigger === kind.spoken);
    await this.#teach([...kind.requested(team, head.trigger), ...unsaved], head);
  }

  #lessons(messages: readonly ChatMessage[]): Lesson[] {
    const { kind, team } = this.#hold;
    if (this.#memory === undefined) return [];
    const lessons = messages.map((message) => ({ message, speaker: team.agent(message.name)?.saveState() }));
    return lessons.filter((lesson) => kind.isTaught(lesson));
  }

  /** What memory cannot learn is told, and stops nothing. */
  async #teach(lessons: readonly Lesson[], head: Checkpoint): Promise<void> {
    if (this.#memory === undefined) return;
    await learn(this.#memory, lessons, head).catch((error: unknown) => this.failedSaves.push(error));
  }
}
