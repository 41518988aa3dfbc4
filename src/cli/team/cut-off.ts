import { messageOf, SavestateError } from '../../core/errors.ts';
import { formatCount } from '../../core/format-count.ts';
import type { AbandonedSession } from '../../manager/recovery/abandoned.ts';
import type { Recovery } from '../../manager/recovery/recovery-options.ts';
import { fieldsOf } from '../../manager/revision/transcript.ts';
import type { Session } from '../../manager/session/session.ts';
import { Workers } from '../../manager/workers/workers.ts';
import type { CheckpointingSettings } from '../../runtime/config/config-schema.ts';
import { formatFlags } from '../base/command-input.ts';
import type { Context } from '../base/context.ts';
import type { Team } from './open-team.ts';
import { follow } from './run-output.ts';
import { commandWords, describeStop, type NextWords } from './run-text.ts';
import type { Following, Talk } from './talk.ts';

type Fields = Readonly<Record<string, unknown>>;

/** Who goes on with what was cut off, and how a person does. */
type CutOffOptions = {
  /** Whether a session is one that `recover` can go on with. */
  readonly isOurs: (state: Fields, sessionId: string) => boolean;
  /** Goes on with one under the lease of the recovery; returns how it stopped, in words. */
  readonly recover: (session: Session, options: Following & Pick<Recovery, 'lease'>) => Promise<string>;
  /** What to type to go on with a session. */
  readonly goOn: (sessionId: string) => string;
  /** The session that is continued anyway: it is not named. */
  readonly sessionId?: string | undefined;
};

type CutOff = Pick<AbandonedSession, 'sessionId' | 'branch' | 'isPoisoned' | 'attempts'> & {
  readonly isOurs: boolean;
  readonly isWaiting: boolean;
};

const KINDS = { chat: 'group_chat', fleet: 'fleet' } as const;
const SECOND_MS = 1_000;
const MAX_PAUSE_MS = 300_000;

/** Sees to the sessions of a team that were cut off. */
export function tendTeam(
  context: Context,
  { team, talk }: { readonly team: Team; readonly talk: Talk },
  { words, sessionId }: { readonly words: (sessionId: string) => NextWords; readonly sessionId?: string },
): Promise<void> {
  const namesOf = (names: readonly string[]): string => names.toSorted().join('\n');
  let names: string | undefined; // the team is made only if there is something to compare
  return tendCutOff(context, {
    isOurs: ({ kind, agents }) => {
      if (kind !== KINDS[team.kind]) return false;
      names ??= namesOf(team.create().agents.map(({ name }) => name));
      return namesOf(Object.keys(fieldsOf(agents))) === names;
    },
    recover: async (session, options) => describeStop(await talk.recover(session, options), words(session.id)),
    goOn: (id) => words(id).goOn,
    sessionId,
  });
}

/**
 * Looks for sessions whose process is gone. With `auto_resume_on_failure` each of ours is continued once; what waits for a person or has
 * used up its attempts, everything without that setting, and all runs of workflows that are not ours, is only named.
 */
export async function tendCutOff(context: Context, options: CutOffOptions): Promise<void> {
  const found = await findCutOff(context, options);
  const settings = (await context.settings())?.config.workflow.checkpointing;
  const isResuming = settings?.auto_resume_on_failure === true;
  const mine = found.filter((each) => isResuming && each.isOurs && !each.isWaiting && !each.isPoisoned);
  for (const each of found)
    if (!mine.includes(each) && each.sessionId !== options.sessionId)
      context.say(describeCutOff(each, options.goOn(each.sessionId)));
  if (settings !== undefined && mine.length > 0) await goOn(context, { ...options, settings, mine });
  context.signal.throwIfAborted();
}

function describeCutOff(cutOff: Omit<CutOff, 'branch'>, next: string): string {
  const { sessionId, isPoisoned, attempts, isOurs, isWaiting } = cutOff;
  if (!isOurs) {
    const named = commandWords(sessionId).goOn;
    return `Session ${sessionId}, a run of a workflow, was interrupted. Continue it with: ${named}`;
  }
  if (isWaiting) return `Session ${sessionId} was interrupted and waits for an answer. Continue it with: ${next}`;
  if (!isPoisoned) return `Session ${sessionId} was interrupted. Continue it with: ${next}`;
  return `Session ${sessionId} was interrupted, and continuing it failed ${formatCount(attempts, 'time')} (auto_resume_limit). Try again: ${next}`;
}

async function findCutOff(context: Context, options: CutOffOptions): Promise<CutOff[]> {
  const found: CutOff[] = [];
  for (const each of await new Workers((await context.open()).manager).abandoned({ isEager: true })) {
    const head = await readHead(context, each, options);
    if (head !== undefined) found.push({ ...each, ...head });
  }
  return found;
}

/** How such a session is, on the branch that "continue" goes on with; undefined if it is completed, and for anything else. */
async function readHead(
  context: Context,
  { sessionId, branch }: AbandonedSession,
  { isOurs }: CutOffOptions,
): Promise<Pick<CutOff, 'isOurs' | 'isWaiting'> | undefined> {
  const opened = await context.open();
  try {
    if (branch !== (await opened.manager.currentBranch(sessionId))) return undefined;
    const headId = await opened.findName(sessionId, 'branch', branch);
    if (headId === undefined) return undefined;
    const state = fieldsOf(await opened.manager.load(headId));
    if ((await opened.manager.open(headId)).status === 'completed') return undefined;
    const isRun = state.kind === 'workflow_run';
    if (!isOurs(state, sessionId)) return isRun ? { isOurs: false, isWaiting: false } : undefined;
    const { findOpenRequests } = await import('../../view/requests.ts');
    const asked = await findOpenRequests(opened.manager, { sessionId, branch, state });
    return { isOurs: true, isWaiting: !isRun && asked.length > 0 }; // other steps of a run that waits may go on
  } catch (error) {
    // Somebody else's session that cannot be read stands in nobody's way; verify names it.
    if (error instanceof SavestateError && error.code !== 'STORAGE') return undefined;
    throw error;
  }
}

type GoingOn = CutOffOptions & { readonly settings: CheckpointingSettings; readonly mine: readonly CutOff[] };

async function goOn(context: Context, { settings, mine, recover, ...options }: GoingOn): Promise<void> {
  const { manager } = await context.open();
  const handler = async (session: Session, { lease }: Recovery): Promise<void> => {
    context.say(`Session ${session.id} was interrupted; continuing it.`);
    context.say(`Session ${session.id}: ${await recover(session, { ...followAside(context), lease })}`);
  };
  const { failed, poisoned } = await new Workers(manager).recoverAbandoned(handler, {
    isEager: true,
    isMine: ({ sessionId, branch }) => mine.some((each) => each.sessionId === sessionId && each.branch === branch),
    maxAttempts: settings.auto_resume_limit,
    backoffMs: { firstMs: settings.auto_resume_backoff_seconds * SECOND_MS, factor: 2, maxMs: MAX_PAUSE_MS },
    signal: context.signal,
  });
  for (const { sessionId, error } of [...failed, ...poisoned])
    if (error !== undefined) context.say(`Session ${sessionId} failed: ${messageOf(error)}`);
  for (const { sessionId, error } of failed) context.say(`Try again: ${describeRetry(sessionId, error, options.goOn)}`);
  for (const { sessionId, attempt: attempts, error } of poisoned) {
    const cutOff = { sessionId, attempts, isPoisoned: true, isOurs: true, isWaiting: false };
    context.say(describeCutOff(cutOff, describeRetry(sessionId, error, options.goOn)));
  }
}

/** What differs from its checkpoint goes on only if a person decides about it. */
function describeRetry(sessionId: string, error: unknown, next: CutOffOptions['goOn']): string {
  const isDifference = error instanceof SavestateError && error.details.option === 'onDifference';
  return isDifference
    ? `savestate continue${formatFlags({ session: sessionId })} --on-difference warn`
    : next(sessionId);
}

/** What is said there is no answer of this command, and nobody is asked. */
function followAside(context: Context): Following {
  const { terminal, globals } = context;
  const print = (text: string): void => (globals.quiet ? undefined : terminal.note(text));
  return follow(context.with({ terminal: { ...terminal, print, canAsk: false } }));
}
