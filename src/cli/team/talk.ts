import { resolve } from 'node:path';
import { withoutUndefined } from '../../core/defined.ts';
import { messageOf, NotFoundError } from '../../core/errors.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { EffectMode } from '../../manager/effect/step.ts';
import { createPorts } from '../../manager/engine/engine.ts';
import type { Recovery } from '../../manager/recovery/recovery-options.ts';
import type { Session } from '../../manager/session/session.ts';
import type { HumanRequest } from '../../runtime/agent/reply.ts';
import type { ChatRunResult } from '../../runtime/chat/chat-run.ts';
import type { CheckpointingGroupChatManager } from '../../runtime/chat/checkpointing-group-chat-manager.ts';
import type { FleetRunResult } from '../../runtime/fleet/fleet-run.ts';
import type { FleetRunner } from '../../runtime/fleet/fleet-runner.ts';
import type { FleetRequest } from '../../runtime/fleet/fleet-state.ts';
import type { ToolCallEvent } from '../../runtime/fleet/gated-effects.ts';
import type { ProgressLedger } from '../../runtime/fleet/progress-ledger.ts';
import { supervise } from '../../runtime/run/supervise.ts';
import type { CommandInput, Context } from '../base/command.ts';
import { timeLimitOf } from '../place/project.ts';
import { beginDeparting } from './departing.ts';
import type { Team } from './open-team.ts';
import { toQuestion } from './run-text.ts';
import { DEFAULT_ROUNDS, readOnDifference } from './talk-options.ts';

/** What came of a run, of a group chat or of a fleet. */
export type TeamResult = ChatRunResult | FleetRunResult;

/** A question to the person, as both kinds of teams ask it. */
export type TeamQuestion = {
  readonly id: string;
  readonly agent: string;
  readonly text: string;
  readonly choices: readonly string[];
  /** What an operation that needs approval would be done with, as JSON; else null. */
  readonly input: unknown;
};

/** Who follows a run, and who stops it. */
export type Following = {
  readonly signal: AbortSignal;
  readonly onText: (speaker: string, delta: string) => void;
  readonly onMessage: (message: { readonly name: string; readonly content: string }) => void;
  /** Told what a fleet assesses and calls, in a line, as its `callbacks` allow. */
  readonly onWork: (line: string) => void;
  /** Asks the person now; without it, or without an answer, the run stops and waits. */
  readonly ask?: ((question: TeamQuestion, signal: AbortSignal | undefined) => Promise<string | undefined>) | undefined;
};

/** What a team is to do: go on with a session, or with what was said, or from a checkpoint in a new branch. */
export type TalkOrder = {
  readonly sessionId: string;
  /** Begins the session, if there is none. What a person is asked is answered by it. */
  readonly prompt?: string | undefined;
  /** Default: as the team's settings say; from a checkpoint a few. */
  readonly rounds?: number | undefined;
  readonly answers?: Readonly<Record<string, string>>;
  /** The branch that begins here is the current one as soon as it has a checkpoint of its own. It can be undone. */
  readonly from?: Checkpoint | undefined;
  readonly branch?: string | undefined;
  readonly reason?: string | undefined;
  readonly mode?: EffectMode | undefined;
  readonly stripSignal?: boolean;
  readonly files?: 'keep' | 'restore';
};

type Runner = CheckpointingGroupChatManager | FleetRunner;

/** What conversations are held with. */
type TalkParts = Awaited<ReturnType<typeof openParts>>;

/**
 * Talks to a team in the open storage, group chats and fleets alike, as `workflow.yaml` wants it: a run that fails is resumed from its last
 * checkpoint, and one that takes too long is stopped there.
 */
export class Talk {
  readonly #context: Context;
  readonly #parts: TalkParts;

  private constructor(context: Context, parts: TalkParts) {
    this.#context = context;
    this.#parts = parts;
  }

  /** Opens the talk with a team, with the memory that --memory, SAVESTATE_MEMORY or savestate.yaml names. */
  static async open(context: Context, team: Team, input: CommandInput): Promise<Talk> {
    return new Talk(context, await openParts(context, team, input));
  }

  async close(): Promise<void> {
    await this.#parts.memory?.close();
  }

  async run({ from, ...order }: TalkOrder, following: Following): Promise<TeamResult> {
    if (from === undefined)
      return this.#supervise(following, (heard) =>
        order.prompt === undefined ? this.#resume(order, heard) : this.#prompt(order, heard),
      );
    const departing = await beginDeparting(this.#context, from);
    // From its first checkpoint on a run that is killed can be continued.
    const onCheckpoint = ({ branch }: { branch: string }): Promise<void> => departing.makeCurrent(branch);
    const departed = this.#supervise(following, (heard) => this.#depart({ ...order, from, onCheckpoint }, heard));
    return departed.finally(departing.end);
  }

  async #prompt({ sessionId, prompt = '', rounds }: TalkOrder, following: Following): Promise<TeamResult> {
    const runner = await this.#open(sessionId, following);
    const isNew = (await this.#parts.opened.manager.latest({ sessionId })) === undefined;
    const [question] = isNew ? [] : await runner.pending();
    if (question === undefined) return runner.prompt(prompt, withoutUndefined({ rounds }));
    // Whoever is asked something and says something has answered.
    return this.#resume({ sessionId, answers: { [question.id]: prompt } }, following);
  }

  async #resume({ sessionId, rounds, answers = {} }: TalkOrder, following: Following): Promise<TeamResult> {
    if ((await this.#parts.opened.manager.latest({ sessionId })) === undefined)
      throw new NotFoundError(`Session "${sessionId}" has no conversation yet. Start one: savestate run "..."`, {
        details: { sessionId },
      });
    const runner = await this.#open(sessionId, following);
    const asked = await runner.pending();
    const said = Object.entries(answers).map(([requestId, text]) => {
      const takesAnyText = asked.find(({ id }) => id === requestId)?.options.length === 0;
      return [requestId, { by: this.#author, ...splitAnswer(text, takesAnyText) }] as const;
    });
    // What is refused takes no answer.
    return runner.resume({ ...withoutUndefined({ rounds }), answers: Object.fromEntries(said) });
  }

  async #depart(
    order: Omit<TalkOrder, 'from'> & { from: Checkpoint; onCheckpoint: (saved: { branch: string }) => Promise<void> },
    following: Following,
  ): Promise<TeamResult> {
    const { from, rounds = DEFAULT_ROUNDS, prompt, branch, reason, mode, stripSignal, files, onCheckpoint } = order;
    const { team, opened, logs, onDifference } = this.#parts;
    const { manager } = opened;
    const said = withoutUndefined({ prompt, branch, reason, mode, onDifference });
    const run = { rounds, ...said, ...this.#runOptions(from), onCheckpoint };
    // What only the team's module knows, such as its models and where code may run, is registered when the team is made.
    const { registry } = team.create();
    if (team.kind === 'chat') {
      const { CheckpointRestorer } = await import('../../runtime/chat/checkpoint-restorer.ts');
      const ofChats = { ...withoutUndefined({ stripSignal, files }), logs };
      const restorer = new CheckpointRestorer({ manager, registry });
      return restorer.continue(from.id, { ...run, ...ofChats, ...followChat(following) });
    }
    const { FleetRestorer } = await import('../../runtime/fleet/fleet-restorer.ts');
    const restorer = new FleetRestorer({ manager, registry });
    return restorer.continue(from.id, { ...run, ...this.#followFleet(following) });
  }

  /** Goes on, under the lease of the recovery, with a session whose process is gone; throws what it fails with. Its attempts are counted by the recovery. */
  async recover(session: Session, { lease, ...following }: Following & Pick<Recovery, 'lease'>): Promise<TeamResult> {
    const runner = await this.#open(session.id, { ...following, signal: this.#limit(following.signal) });
    return runner.recover(session, { lease });
  }

  async #open(sessionId: string, following: Following): Promise<Runner> {
    const { team, opened, logs, onDifference } = this.#parts;
    const place = {
      manager: opened.manager,
      sessionId,
      ...withoutUndefined({ onDifference }),
      ...this.#runOptions(await opened.manager.latest({ sessionId })),
    };
    if (team.kind === 'chat') {
      const { CheckpointingGroupChatManager: Manager } = await import(
        '../../runtime/chat/checkpointing-group-chat-manager.ts'
      );
      return new Manager({ chat: team.create(), ...place, logs, ...followChat(following) });
    }
    const { FleetRunner: Manager } = await import('../../runtime/fleet/fleet-runner.ts');
    return new Manager({ fleet: team.create(), ...place, ...this.#followFleet(following) });
  }

  /** Who answers questions. */
  get #author(): string {
    return this.#parts.userId ?? this.#context.user;
  }

  /** What is learned is the user's who is named, or else the one's whose session it is. */
  #runOptions(last: Checkpoint | undefined) {
    const { memory, userId } = this.#parts;
    const scope = { userId: userId ?? last?.userId ?? this.#context.user };
    return withoutUndefined({ memory: memory && { memory, scope }, userId });
  }

  #followFleet({ ask, onWork, ...heard }: Following) {
    const following = { ...heard, ...followWork(onWork) };
    if (ask === undefined) return following;
    const by = this.#author;
    return {
      ...following,
      ask: async (request: FleetRequest, { signal }: { signal: AbortSignal }) => {
        const said = await ask(toQuestion(request), signal);
        return said === undefined ? undefined : { by, ...splitAnswer(said, request.options.length === 0) };
      },
    };
  }

  async #supervise(following: Following, begin: (following: Following) => Promise<TeamResult>): Promise<TeamResult> {
    const settings = this.#parts.settings?.config.workflow;
    if (settings === undefined) return begin(following);
    const heard = { ...following, signal: this.#limit(following.signal) };
    let last: TeamResult | undefined;
    const attempt = async (before: TeamResult | undefined): Promise<TeamResult> => {
      last = await (before === undefined ? begin(heard) : this.#resume(before, heard));
      return last;
    };
    const result = await supervise<TeamResult>({
      settings: settings.checkpointing,
      signal: heard.signal,
      ports: createPorts(),
      attempt,
      failureOf: (tried) => (tried.status === 'failed' ? { error: tried.error, mark: '' } : undefined),
      isPassing: () => false, // what was said must not be said again
      onRetry: (retry) => {
        const problem = `attempt ${retry.attempt} failed: ${messageOf(retry.error)}`;
        this.#context.say(`${problem}; the next one is in ${retry.pauseMs} ms`);
      },
    }).catch((error: unknown) => {
      if (heard.signal.aborted && last !== undefined) return last;
      throw error;
    });
    if (heard.signal.aborted && !following.signal.aborted)
      this.#context.say(`Stopped after ${settings.timeout_seconds} s (timeout_seconds).`);
    return result;
  }

  #limit(signal: AbortSignal): AbortSignal {
    const limit = timeLimitOf(this.#parts.settings);
    return limit === undefined ? signal : AbortSignal.any([signal, limit]);
  }
}

async function openParts(context: Context, team: Team, input: CommandInput) {
  const opened = await context.openForRun();
  const logs = input.text('logs');
  const named = input.text('memory') ?? (context.env.SAVESTATE_MEMORY || undefined);
  const hasMemory = named !== undefined || (await context.config())?.config.memory !== undefined;
  const memory = { named, manager: opened.manager, isCreated: true };
  return {
    team,
    opened,
    settings: await context.settings(),
    memory: hasMemory ? await (await import('../memory/open-memory.ts')).openMemory(context, memory) : undefined,
    logs: logs === undefined ? (false as const) : resolve(context.folder, logs),
    userId: input.text('user') ?? (context.env.SAVESTATE_USER || undefined),
    onDifference: readOnDifference(input),
  };
}

/** A line for each assessment of the orchestrator, and for each call of a tool. */
function followWork(tell: (line: string) => void) {
  return {
    onProgressLedger: (ledger: ProgressLedger) => {
      const { is_request_satisfied: done, is_progress_being_made: moves, next_speaker: next } = ledger;
      tell(`ledger: ${done.answer ? 'done' : `next ${next.answer}`}${moves.answer ? '' : ', no progress'}`);
    },
    onToolCall: ({ agent, name, input }: ToolCallEvent) => tell(`${agent} calls ${name} ${JSON.stringify(input)}`),
  };
}

function followChat({ ask, signal: stop, onText, onMessage }: Following) {
  const following = { signal: stop, onText, onMessage };
  if (ask === undefined) return following;
  return {
    ...following,
    ask: (request: HumanRequest, { signal }: { signal?: AbortSignal | undefined }) => ask(toQuestion(request), signal),
  };
}

/** `revise: shorter, please` is an answer and what belongs to it, where there are options. */
function splitAnswer(text: string, takesAnyText: boolean): { readonly answer: string; readonly value?: string } {
  const found = takesAnyText ? null : /^([a-z_]+):\s*([\s\S]*)$/.exec(text);
  return found === null ? { answer: text } : { answer: found[1] ?? '', value: found[2] ?? '' };
}
