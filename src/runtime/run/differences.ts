import { InvalidInputError } from '../../core/errors.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { OnDifference } from '../../manager/agent/agent-saving.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { createReport, type RestoreProblem } from '../../manager/engine/loading.ts';

/** One thing in which the code is not what the checkpoint was saved with. */
export type Difference = {
  /** Where in the state, such as `$.agents.ann.tools.pay`. */
  readonly path: string;
  readonly kind: 'changed' | 'missing' | 'added';
  /** In a sentence. */
  readonly text: string;
};

/** Decides about differences, in the same way wherever something saved goes on. */
export type DifferenceOptions = {
  /**
   * If tools, prompts, models, limits or other code differ from the checkpoint: `fail` (default) refuses before anything is
   * written, `warn` goes on as the checkpoint says, `accept` as the code says now. What is missing stays missing.
   */
  readonly onDifference?: OnDifference;
};

/** What putting something back found: `complete` only if everything is as it was. */
export type DifferenceReport = {
  readonly status: 'complete' | 'partial';
  readonly differences: readonly Difference[];
};

/** A report of what was found. */
export function report(differences: readonly Difference[]): DifferenceReport {
  return { status: differences.length === 0 ? 'complete' : 'partial', differences };
}

/** Throws if there are differences and nobody decided to go on; `what` is the thing that would go on, such as "conversation". */
export function refuse(differences: readonly Difference[], decision: OnDifference, what: string): void {
  if (decision !== 'fail' || differences.length === 0) return;
  const found = differences.map(({ text }) => text).join(' ');
  const isMissing = differences.every(({ kind, path }) => kind === 'missing' && !AGENT_FIELD.test(path));
  const [subject, source] = differences.every(({ path }) => isSetting(path))
    ? ['settings are', 'settings say']
    : ['code is', 'code says'];
  throw new InvalidInputError(
    isMissing
      ? `The ${what} cannot be put back as it was: ${found} Register what is missing, or go on without it: "warn" or "accept".`
      : `The ${subject} not what the ${what} was saved with: ${found} Go on with onDifference (--on-difference at the command line) "warn", as the checkpoint says, or "accept", as the ${source} now.`,
    { details: { option: 'onDifference', differences } },
  );
}

/** What is neither a prompt, a model, a tool nor an agent. */
function isSetting(path: string): boolean {
  return path.startsWith('$.settings.') || AGENT_SETTING.test(path);
}

const AGENT_FIELD = /^\$\.agents\..*\.fields\b/;

const AGENT_SETTING =
  /^\$\.agents\..*\.(humanInputMode|maxConsecutiveAutoReplies|maxToolRounds|defaultReply|runtime|codeExecution(\.\w+)?)$/;

/** The problems of a restore that lose something of what was saved. In what the code differs is compared with the code of then. */
export function findLosses(problems: readonly RestoreProblem[]): readonly RestoreProblem[] {
  return problems.filter(({ kind }) => kind === undefined);
}

/** Problems of a restore as differences; what is known already by its path is left out. */
export function addProblems(known: readonly Difference[], problems: readonly RestoreProblem[]): readonly Difference[] {
  const more = problems.map(({ path, problem, kind = 'missing' }): Difference => ({ path, kind, text: problem }));
  return addDifferences(known, more);
}

/** Something that goes on from a checkpoint. */
type Restored = {
  readonly checkpoint: Checkpoint;
  readonly restored: unknown;
  readonly differences?: readonly Difference[];
  readonly problems?: readonly RestoreProblem[];
};

/** Tells that something goes on from a checkpoint, as a restore of the manager does. */
export async function tellRestored(
  manager: CheckpointManager,
  { checkpoint, restored, differences = [], problems = [] }: Restored,
): Promise<void> {
  const all = [...problems, ...differences.map(({ path, text }) => ({ path, problem: text }))];
  await manager.engine.events.emit('checkpoint_restored', checkpoint, restored, createReport(checkpoint.id, all, []));
}

/** One for each path: what was found first. */
export function addDifferences(known: readonly Difference[], more: readonly Difference[]): readonly Difference[] {
  const paths = new Set(known.map(({ path }) => path));
  return [...known, ...more.filter(({ path }) => !paths.has(path))];
}
