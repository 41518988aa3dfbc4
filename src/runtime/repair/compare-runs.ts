import { NotFoundError } from '../../core/errors.ts';
import { checkOptions, type OptionChecks } from '../../core/options.ts';
import { name } from '../../core/record/id.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { AgentTotals } from '../agent/agent-state.ts';
import type { ChatEnd } from '../chat/chat-end.ts';
import { PARTS } from '../run/run-options.ts';
import { alignMessages } from './align-messages.ts';
import { ChatPath } from './chat-path.ts';
import type { RepairParts } from './hold-branch.ts';
import { subtractTotals, totalsOf } from './totals.ts';

/** A run of a conversation: the checkpoint it is looked at, or a branch at its head. */
export type RunRef = string | { readonly sessionId: string; readonly branch: string };

const RUN: OptionChecks<Exclude<RunRef, string>> = { sessionId: { required: name }, branch: { required: name } };

/** One of two runs that are compared. */
export type ComparedRun = {
  readonly sessionId: string;
  readonly branch: string;
  readonly checkpointId: string;
  readonly messages: number;
  /** Null if it had not ended at that checkpoint. */
  readonly end: ChatEnd | null;
  readonly totals: AgentTotals;
};

/** One message of a run. */
export type ComparedMessage = {
  readonly index: number;
  readonly speaker: string;
  readonly content: string;
  /** The checkpoint at which it was appended; undefined if that was deleted or never was on the path. */
  readonly checkpointId: string | undefined;
};

/** One line of the comparison. */
export type ComparedStep = {
  readonly kind: 'same' | 'changed' | 'only_a' | 'only_b';
  readonly a?: ComparedMessage;
  readonly b?: ComparedMessage;
};

/** Two runs beside each other; differences are what the second has more than the first. */
export type RunComparison = {
  readonly a: ComparedRun;
  readonly b: ComparedRun;
  readonly isIdentical: boolean;
  /** The newest checkpoint that both descend from. */
  readonly commonAncestorId: string | undefined;
  readonly steps: readonly ComparedStep[];
  readonly counts: Readonly<Record<ComparedStep['kind'], number>>;
  /** The first step at which they differ; a side is absent where that run was over. */
  readonly firstDivergence: ComparedStep | undefined;
  readonly difference: AgentTotals;
};

/** Compares two runs message by message: what is the same, what is not, where they part, and what each cost. */
export async function compareRuns(parts: RepairParts, a: RunRef, b: RunRef): Promise<RunComparison> {
  checkOptions(parts, PARTS, 'compareRuns()');
  const { checkpoints } = parts;
  const [pathA, pathB] = await Promise.all([openRun(checkpoints, a), openRun(checkpoints, b)]);
  const steps = alignMessages(pathA.state.chat.messages, pathB.state.chat.messages).map(
    (step): ComparedStep => ({
      kind: step.kind,
      ...(step.a !== undefined && { a: describeMessage(pathA, step.a) }),
      ...(step.b !== undefined && { b: describeMessage(pathB, step.b) }),
    }),
  );
  const [runA, runB] = [describeRun(pathA), describeRun(pathB)];
  const firstDivergence = findFirst(steps);
  return {
    a: runA,
    b: runB,
    isIdentical: firstDivergence === undefined && runA.end?.reason === runB.end?.reason,
    commonAncestorId: findCommon(pathA, pathB),
    steps,
    counts: countSteps(steps),
    firstDivergence,
    difference: subtractTotals(runB.totals, runA.totals),
  };
}

async function openRun(checkpoints: CheckpointManager, ref: RunRef): Promise<ChatPath> {
  if (typeof ref === 'string') return ChatPath.open(checkpoints, ref);
  checkOptions(ref, RUN, 'a run to compare');
  const branches = await checkpoints.branches(ref.sessionId);
  const found = branches.find(({ branch }) => branch === ref.branch);
  if (found !== undefined) return ChatPath.open(checkpoints, found.headId);
  const names = branches.map(({ branch }) => branch).join(', ') || 'none';
  throw new NotFoundError(`Session "${ref.sessionId}" has no branch "${ref.branch}". It has: ${names}.`, {
    details: ref,
  });
}

function describeRun({ head, state }: ChatPath): ComparedRun {
  const { sessionId, branch, id } = head;
  const { messages, end } = state.chat;
  return { sessionId, branch, checkpointId: id, messages: messages.length, end, totals: totalsOf(state) };
}

function describeMessage(path: ChatPath, index: number): ComparedMessage {
  const { name = '', content = '' } = path.state.chat.messages[index] ?? {};
  return { index, speaker: name, content, checkpointId: path.findAppended(index + 1)?.id };
}

/** Where one run left out or added a message, the line shows what the other has at that moment, if anything. */
function findFirst(steps: readonly ComparedStep[]): ComparedStep | undefined {
  const at = steps.findIndex(({ kind }) => kind !== 'same');
  const first = steps[at];
  if (first === undefined || first.kind === 'changed') return first;
  const rest = steps.slice(at);
  const a = rest.find((step) => step.a !== undefined)?.a;
  const b = rest.find((step) => step.b !== undefined)?.b;
  return { kind: first.kind, ...(a !== undefined && { a }), ...(b !== undefined && { b }) };
}

function findCommon(a: ChatPath, b: ChatPath): string | undefined {
  const ids = new Set(b.ids);
  return a.ids.find((id) => ids.has(id));
}

function countSteps(steps: readonly ComparedStep[]): RunComparison['counts'] {
  const counts = { same: 0, changed: 0, only_a: 0, only_b: 0 };
  for (const { kind } of steps) counts[kind]++;
  return counts;
}
