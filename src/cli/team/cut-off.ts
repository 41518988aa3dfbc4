import { messageOf, SavestateError } from '../../core/errors.ts';
import { formatCount } from '../../core/format-count.ts';
import type { AbandonedSession } from '../../manager/recovery/abandoned.ts';
import type { RecoveryHandler } from '../../manager/recovery/recovery-options.ts';
import type { CheckpointingSettings } from '../../runtime/config/config-schema.ts';
import { beginOwner, isGone } from '../../runtime/run/liveness.ts';
import type { Context } from '../base/context.ts';
import type { OpenStorage } from '../base/open-storage.ts';
import { fieldsOf } from '../state/state-view.ts';
import type { Team } from './open-team.ts';
import { RunFollower } from './run-output.ts';
import { describeStop, type NextWords } from './run-text.ts';
import type { Talk } from './talk.ts';

/** Who goes on with what was cut off, and how a person does. */
export type CutOffOptions = {
  readonly team: Team;
  readonly opened: OpenStorage;
  readonly talk: Talk;
  readonly words: (sessionId: string) => NextWords;
  /** The session that is gone on with anyway: it is not named. */
  readonly sessionId?: string | undefined;
};

type CutOff = AbandonedSession & { readonly isWaiting: boolean };

const KINDS = { chat: 'group_chat', fleet: 'fleet' } as const;
const SECOND_MS = 1_000;
const MAX_PAUSE_MS = 300_000;

/**
 * Looks for sessions of this team whose process is gone. With `auto_resume_on_failure` each is gone on with once; what waits for a person
 * or has used up its attempts, and everything without that setting, is only named.
 */
export async function tendCutOff(context: Context, options: CutOffOptions): Promise<void> {
  await nameCutOffRuns(context, options);
  const found = await findCutOff(options);
  if (found.length === 0) return;
  const settings = (await context.settings())?.config.workflow.checkpointing;
  const isResuming = settings?.auto_resume_on_failure === true;
  const mine = found.filter(({ isWaiting, isPoisoned }) => isResuming && !isWaiting && !isPoisoned);
  for (const each of found)
    if (!mine.includes(each) && each.sessionId !== options.sessionId)
      context.say(describeCutOff(each, options.words(each.sessionId).goOn));
  if (settings !== undefined && mine.length > 0) await goOn(context, { ...options, settings, mine });
  context.signal.throwIfAborted();
}

/** Names the runs of workflows whose process is gone. Each has code of its own, so a person goes on with it. */
export async function nameCutOffRuns(
  context: Context,
  { opened, sessionId: known }: Pick<CutOffOptions, 'opened' | 'sessionId'>,
): Promise<void> {
  for (const each of await opened.manager.abandoned({ isGone })) {
    const isRun = await readStatus(opened, each, ({ kind }) => kind === 'workflow_run');
    if (isRun === undefined || each.sessionId === known) continue;
    const next = `savestate continue --session ${each.sessionId}`;
    context.say(`Session ${each.sessionId}, a run of a workflow, was cut off. Go on with it: ${next}`);
  }
}

function describeCutOff(
  { sessionId, isPoisoned, isWaiting, attempts }: Omit<CutOff, 'branch' | 'owner' | 'lapsedAtMs'>,
  next: string,
): string {
  if (isWaiting) return `Session ${sessionId} was cut off and waits for an answer. Go on with it: ${next}`;
  if (!isPoisoned) return `Session ${sessionId} was cut off. Go on with it: ${next}`;
  return `Session ${sessionId} was cut off, and going on with it failed ${formatCount(attempts, 'time')} (auto_resume_limit). Try again: ${next}`;
}

async function findCutOff({ team, opened }: CutOffOptions): Promise<CutOff[]> {
  const left = await opened.manager.abandoned({ isGone });
  if (left.length === 0) return [];
  const names = namesOf(team.create().agents.map(({ name }) => name));
  const isOurs = ({ kind, agents }: Readonly<Record<string, unknown>>): boolean =>
    kind === KINDS[team.kind] && namesOf(Object.keys(fieldsOf(agents))) === names;
  const found: CutOff[] = [];
  for (const each of left) {
    const status = await readStatus(opened, each, isOurs);
    if (status !== undefined && status !== 'completed')
      found.push({ ...each, isWaiting: status === 'waiting_for_input' });
  }
  return found;
}

const namesOf = (names: readonly string[]): string => names.toSorted().join('\n');

/** How far such a session is, on the branch that "continue" goes on with; undefined for anything else. */
async function readStatus(
  opened: OpenStorage,
  { sessionId, branch }: AbandonedSession,
  isMeant: (state: Readonly<Record<string, unknown>>) => boolean,
): Promise<string | undefined> {
  try {
    if (branch !== (await opened.manager.currentBranch(sessionId))) return undefined;
    const headId = await opened.findName(sessionId, 'branch', branch);
    if (headId === undefined) return undefined;
    if (!isMeant(fieldsOf(await opened.manager.load(headId)))) return undefined;
    return (await opened.openCheckpoint(headId)).status ?? 'running';
  } catch (error) {
    // Somebody else's session that cannot be read stands in nobody's way; verify names it.
    if (error instanceof SavestateError && error.code !== 'STORAGE') return undefined;
    throw error;
  }
}

type GoingOn = CutOffOptions & { readonly settings: CheckpointingSettings; readonly mine: readonly CutOff[] };

async function goOn(context: Context, { settings, mine, ...options }: GoingOn): Promise<void> {
  const { opened, talk, words } = options;
  const handler: RecoveryHandler = async (session, { lease }) => {
    context.say(`Session ${session.id} was cut off; going on with it.`);
    const result = await talk.recover(session, { ...followAside(context), lease });
    context.say(`Session ${session.id}: ${describeStop(result, words(session.id))}`);
  };
  const { owner, end } = beginOwner();
  try {
    const { failed, poisoned } = await opened.manager.recoverAbandoned(handler, {
      owner,
      isGone,
      isMine: ({ sessionId, branch }) => mine.some((each) => each.sessionId === sessionId && each.branch === branch),
      maxAttempts: settings.auto_resume_limit,
      backoffMs: { firstMs: settings.auto_resume_backoff_seconds * SECOND_MS, factor: 2, maxMs: MAX_PAUSE_MS },
      signal: context.signal,
    });
    for (const { sessionId, error } of [...failed, ...poisoned])
      if (error !== undefined) context.say(`Session ${sessionId} failed: ${messageOf(error)}`);
    for (const { sessionId, error } of failed) context.say(`Try again: ${describeRetry(sessionId, error, words)}`);
    for (const { sessionId, attempt: attempts, error } of poisoned) {
      const next = describeRetry(sessionId, error, words);
      context.say(describeCutOff({ sessionId, attempts, isPoisoned: true, isWaiting: false }, next));
    }
  } finally {
    end();
  }
}

/** What differs from its checkpoint goes on only if a person decides about it. */
function describeRetry(sessionId: string, error: unknown, words: CutOffOptions['words']): string {
  const isDifference = error instanceof SavestateError && error.details.option === 'onDifference';
  return isDifference ? `savestate continue --session ${sessionId} --on-difference warn` : words(sessionId).goOn;
}

/** What is said there is no answer of this command, and nobody is asked. */
function followAside(context: Context) {
  const { terminal, globals } = context;
  const print = (text: string): void => (globals.quiet ? undefined : terminal.note(text));
  return new RunFollower(context.with({ terminal: { ...terminal, print, canAsk: false } })).following;
}
