import type { Checkpoint } from '../core/record/checkpoint.ts';
import type { CheckpointManager } from '../manager/checkpoint-manager.ts';
import { type CountedCheckpoint, countBack, readLive } from '../manager/revision/rounds.ts';
import { listMessages } from '../manager/revision/transcript.ts';
import type { ChatMessage } from '../runtime/agent/chat-message.ts';
import { type AlignedStep, alignMessages } from '../runtime/repair/compare-runs.ts';
import { collect } from './history.ts';
import { type ReadMessage, readParts } from './messages.ts';

/** A run that is compared: its head, its path and its messages. */
export type ComparedSide = {
  readonly head: Checkpoint;
  readonly state: unknown;
  /** From the head back, without the deleted ones. */
  readonly path: readonly Checkpoint[];
  readonly messages: readonly ReadMessage[];
  /** The state its own part begins with: that of the edit that made the branch, or of the fork point. */
  readonly start: unknown;
  /** From the head back, as far as messages were only appended. */
  readonly counted: readonly CountedCheckpoint[];
};

/** Two runs beside each other, from the point on where they part. */
export type BranchComparison = {
  readonly a: ComparedSide;
  readonly b: ComparedSide;
  readonly forkPoint: Checkpoint | undefined;
  /** How many messages both had there. */
  readonly common: number;
  readonly lines: readonly AlignedStep[];
};

/** Compares any two checkpoints that hold messages, whoever saved them. */
export async function compareBranches(
  manager: CheckpointManager,
  heads: { readonly a: Checkpoint; readonly b: Checkpoint },
): Promise<BranchComparison> {
  const [pathA, pathB] = await Promise.all([readPath(manager, heads.a), readPath(manager, heads.b)]);
  const idsB = new Set(pathB.map(({ id }) => id));
  const forkPoint = pathA.find(({ id }) => idsB.has(id));
  const [a, b] = await Promise.all([readSide(manager, pathA, forkPoint), readSide(manager, pathB, forkPoint)]);
  const before = forkPoint === undefined ? undefined : listMessages(await manager.load(forkPoint.id));
  const lines = alignTranscripts(a.messages, b.messages);
  const common = countCommon(lines, before?.length ?? 0);
  return { a, b, forkPoint, common, lines: lines.slice(common) };
}

/** Two conversations beside each other: what is the same, what was said otherwise, what only one of them has. */
export function alignTranscripts(a: readonly ReadMessage[], b: readonly ReadMessage[]): AlignedStep[] {
  return alignMessages(a.map(toKey), b.map(toKey));
}

type Path = readonly [head: Checkpoint, ...before: Checkpoint[]];

async function readPath(manager: CheckpointManager, head: Checkpoint): Promise<Path> {
  const [, ...before] = await collect(readLive(manager.engine.storage, head));
  return [head, ...before];
}

async function readSide(
  manager: CheckpointManager,
  path: Path,
  forkPoint: Checkpoint | undefined,
): Promise<ComparedSide> {
  const [head] = path;
  const state = await manager.load(head.id);
  const first = path.findLast(({ id }) => forkPoint !== undefined && id > forkPoint.id);
  const begin = first?.header.trigger === 'edited' ? first : forkPoint;
  const start = begin === undefined ? undefined : await manager.load(begin.id);
  const counted = await collect(countBack(path));
  return { head, state, path, messages: (listMessages(state) ?? []).map(readParts), start, counted };
}

/** An edit at the fork may change what was said before it: only what is the same is left out. */
function countCommon(lines: readonly AlignedStep[], atFork: number): number {
  const differs = lines.findIndex(({ kind }) => kind !== 'same');
  return Math.min(atFork, differs < 0 ? lines.length : differs);
}

/** Who said what and called what: the ids of calls differ between equal runs. */
function toKey({ speaker, text, calls, results }: ReadMessage): ChatMessage {
  const did = [...calls.map(({ name, input }) => [name, input]), ...results.map(({ name, output }) => [name, output])];
  return { name: speaker, content: did.length === 0 ? text : `${text}\n${JSON.stringify(did)}` };
}

/** The checkpoint that brought a message, where checkpoints say how many there are. */
export function originOf({ counted }: ComparedSide, index: number): Checkpoint | undefined {
  return counted.findLast(({ messages }) => messages > index)?.checkpoint;
}
