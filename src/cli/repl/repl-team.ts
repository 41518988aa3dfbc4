import { withoutUndefined } from '../../core/defined.ts';
import { InvalidInputError, NotFoundError } from '../../core/errors.ts';
import { type CheckpointId, parseSessionId, type SessionId } from '../../core/record/id.ts';
import { type CommandInput, flagOf } from '../base/command-input.ts';
import type { Context } from '../base/context.ts';
import { addressExists } from '../place/address.ts';
import type { Team } from '../team/open-team.ts';
import type { Following, Talk, TeamResult } from '../team/talk.ts';
import { checkKind, newSessionName, readOnDifference } from '../team/talk-options.ts';

/** Where a team goes on, and how it is stopped. */
export type TalkPlace = {
  readonly sessionId: SessionId | undefined;
  /** The checkpoint that was resumed; undefined: the head of the current branch. */
  readonly from: CheckpointId | undefined;
  /** Aborts when the person presses Ctrl-C. */
  readonly signal: AbortSignal;
};

/** Who answers, or why nobody does: one looks around without a team. */
export type FoundTeam = { readonly team?: ReplTeam; readonly teamError?: unknown };

/** Said after a run of which nothing is stored. */
const NOT_STORED = 'Nothing is stored: it is gone when the REPL ends.';

/** The configured team; what it needs is loaded only if there is one. */
export async function findReplTeam(context: Context, input: CommandInput): Promise<FoundTeam> {
  input.limit('rounds');
  readOnDifference(input);
  const file = input.text('team') ?? (context.env.SAVESTATE_TEAM || (await context.config())?.config.team);
  if (file === undefined) {
    // They could only be ignored.
    const stray = ['rounds', 'registry', 'user', 'memory', 'allowCode', 'onDifference', 'logs'].find((name) =>
      input.has(name),
    );
    if (stray === undefined) return {};
    throw new InvalidInputError(`There is no team here that ${flagOf(stray)} could be for. Give --team <file>, too.`);
  }
  const { openTeam, readTeamChoice } = await import('../team/open-team.ts');
  const found = await openTeam(context, readTeamChoice(input)).catch((error: unknown) => ({ teamError: error }));
  if ('teamError' in found) return found;
  checkKind(input, found.kind);
  const team = new ReplTeam(context, input, { team: found, file });
  return team.begin().then(
    () => ({ team }),
    (error: unknown) => ({ teamError: error }),
  );
}

/** Answers prompts with the configured team: each goes on with the session, or from the checkpoint that was resumed. */
export class ReplTeam {
  /** Who it is, in a few words. */
  readonly name: string;
  /** What was chosen for it when the REPL began, as the variables that say so to other commands. */
  readonly chosen: Readonly<Record<string, string | undefined>>;
  readonly #context: Context;
  readonly #input: CommandInput;
  readonly #team: Team;
  readonly #teamRounds: number;
  #talk: Promise<Talk> | undefined;

  constructor(context: Context, input: CommandInput, { team, file }: { readonly team: Team; readonly file: string }) {
    this.#context = context;
    this.#input = input;
    this.#team = team;
    this.chosen = withoutUndefined({ SAVESTATE_TEAM: input.text('team'), SAVESTATE_MEMORY: input.text('memory') });
    const { agents, record } = team.create();
    this.name = `a ${team.kind} of ${agents.map((agent) => agent.name).join(', ')} (${file})`;
    this.#teamRounds = 'maxRounds' in record.settings ? record.settings.maxRounds : record.settings.maxRoundCount;
  }

  /** Looking makes no storage; one that is there is tidied now, and what was cut off in it is seen to. */
  async begin(): Promise<void> {
    const context = this.#context;
    if (addressExists(await context.address()) || (await context.settings()) !== undefined) await this.#open();
  }

  async tend(): Promise<void> {
    if (this.#talk === undefined) return;
    const [{ tendTeam }, { replWords }] = await Promise.all([
      import('../team/cut-off.ts'),
      import('../team/run-text.ts'),
    ]);
    await tendTeam(this.#context, { team: this.#team, talk: await this.#talk }, { words: replWords });
  }

  async close(): Promise<void> {
    await (await this.#talk?.catch(() => undefined))?.close();
  }

  #open(): Promise<Talk> {
    this.#talk ??= import('../team/talk.ts').then(({ Talk }) => Talk.open(this.#context, this.#team, this.#input));
    return this.#talk;
  }

  /** Says something to the team, or, without words, lets it go on for so many rounds; returns the session. */
  async hear(
    said: { readonly prompt?: string; readonly rounds?: number | undefined },
    place: TalkPlace,
  ): Promise<SessionId> {
    const [{ follow, tellEnd }, { replWords }] = await Promise.all([
      import('../team/run-output.ts'),
      import('../team/run-text.ts'),
    ]);
    const { terminal } = this.#context;
    // The keys are read by the REPL.
    const context = this.#context.with({ signal: place.signal, terminal: { ...terminal, canAsk: false } });
    const result = await this.#run(said, place, follow(context));
    const isKept = await context.keepsRuns();
    await tellEnd(context, result, { ...replWords(), ...(!isKept && { notKept: NOT_STORED }) });
    return parseSessionId(result.sessionId);
  }

  async #run(
    { prompt, rounds }: Parameters<ReplTeam['hear']>[0],
    place: TalkPlace,
    following: Following,
  ): Promise<TeamResult> {
    const talk = await this.#open();
    const most = rounds ?? this.#input.count('rounds');
    const { sessionId } = place;
    if (place.from !== undefined) {
      const from = await (await this.#context.open()).manager.open(place.from);
      return talk.run({ sessionId: from.sessionId, prompt, from, rounds: most ?? this.#teamRounds }, following);
    }
    if (prompt !== undefined)
      return talk.run({ sessionId: sessionId ?? newSessionName('chat'), prompt, rounds: most }, following);
    if (sessionId === undefined) throw new NotFoundError('There is nothing to continue. Type a prompt first.');
    return talk.run({ sessionId, rounds }, following);
  }
}
