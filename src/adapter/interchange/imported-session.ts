import { freezeState } from '../../core/freeze.ts';
import { isName, parseSessionId } from '../../core/record/id.ts';
import { digestText } from '../../core/tree/chunk.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { encodePart } from '../session-name.ts';

/** A message in the form of the AI SDK, which every view reads. What its format has beside that is kept in `extra`. */
export type ImportedMessage = {
  readonly role: 'system' | 'user' | 'assistant' | 'tool';
  readonly name?: string;
  readonly content: string | readonly MessagePart[];
  readonly timestamp?: string;
  readonly extra?: Fields;
};

type Fields = { readonly [field: string]: unknown };

/** Words, a picture, a call of a tool or its result. */
export type MessagePart = Fields & { readonly type: string };

/** What came of one step of a run: the messages it added. */
export type ImportedStep = { readonly atMs?: number | undefined; readonly messages: readonly ImportedMessage[] };

/** A run of another tool that is to become a session: a checkpoint for each step. */
export type ImportedRun = {
  readonly format: 'atif' | 'otlp';
  /** What the run is called there; parts of its session id. */
  readonly names: readonly string[];
  readonly agent: string;
  /** What the state holds beside its messages. */
  readonly state: Fields;
  readonly steps: readonly ImportedStep[];
};

/** What became of a run. */
export type ImportedSession = {
  readonly sessionId: string;
  readonly checkpoints: number;
  readonly messages: number;
  readonly isNew: boolean;
};

/**
 * Stores runs as sessions, each whole or not at all. All are built and checked before the first is stored. One that is there already,
 * just so, is left alone; another one of its name is a ConflictError.
 */
export async function storeRuns(manager: CheckpointManager, runs: readonly ImportedRun[]): Promise<ImportedSession[]> {
  const built: (BuiltSession & { readonly isNew: boolean })[] = [];
  for (const run of runs) {
    const session = await buildSession(run);
    const [known] = (await manager.list({ sessionId: session.sessionId, metadata: session.mark }, { limit: 1 }))
      .checkpoints;
    built.push({ ...session, isNew: known === undefined });
  }
  const stored: ImportedSession[] = [];
  for (const { manager: from, sessionId, checkpoints, messages, isNew } of built) {
    if (isNew) await manager.importSession(from.exportSession(sessionId));
    stored.push({ sessionId, checkpoints, messages, isNew });
  }
  return stored;
}

type BuiltSession = Omit<ImportedSession, 'isNew'> & {
  readonly manager: CheckpointManager;
  readonly mark: { readonly imported: string; readonly digest: string };
};

/** Makes the session in memory, under the times of its steps. */
async function buildSession({ format, names, agent, state, steps }: ImportedRun): Promise<BuiltSession> {
  const sessionId = parseSessionId([format, ...names.map(encodePart)].join('/'));
  const mark = { imported: format, digest: digestText(JSON.stringify([agent, state, steps])) };
  let nowMs = steps.find(({ atMs }) => atMs !== undefined)?.atMs ?? Date.now();
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage(), now: () => nowMs });
  const session = await manager.session(sessionId);
  const options = { type: 'auto', trigger: 'step_imported', metadata: mark, ...(isName(agent) && { agentId: agent }) };
  let messages: readonly ImportedMessage[] = [];
  for (const step of steps) {
    nowMs = Math.max(nowMs, step.atMs ?? nowMs);
    messages = Object.freeze(messages.concat(step.messages.map((message) => freezeState(message))));
    await session.save(Object.freeze({ ...state, messages }), options);
  }
  return { manager, sessionId, mark, checkpoints: steps.length, messages: messages.length };
}
