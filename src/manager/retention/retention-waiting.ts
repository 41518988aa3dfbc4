import type { CheckpointHeader } from '../../core/record/checkpoint-header.ts';
import type { CheckpointId } from '../../core/record/id.ts';
import { Breather } from '../../storage/breather.ts';
import type { Ref } from '../../storage/contract.ts';
import { readEffects } from '../effect/recordings.ts';
import type { Engine } from '../engine/engine.ts';
import { isAnswerBranch } from '../revision/ref-name.ts';
import type { Protections } from './retention-protections.ts';

/** The step by which an agent loop accepts a message: it is acknowledged from then on. What it records of none is `null`. */
export const ACCEPT_STEP = 'deliver';
const NO_MESSAGE = 'null';

/** What the reason of a verdict says of whoever waits. */
export const STILL_WAITS = 'still waits';

/** Heads that somebody waits for, each with the reason: a run that asks a person or was answered, an agent with messages. Age alone does not end them. */
export async function findWaiting(
  engine: Engine,
  headers: readonly CheckpointHeader[],
  { refs: sessions, answers }: Pick<Protections, 'refs' | 'answers'>,
): Promise<Map<CheckpointId, string>> {
  const byId = new Map(headers.map((header) => [header.id, header]));
  const found = findAnswered(answers);
  const breather = new Breather();
  for (const refs of sessions.values())
    for (const { kind, name, target } of refs) {
      const head = kind === 'branch' && !isAnswerBranch(name) ? byId.get(target as CheckpointId) : undefined;
      const what = head && (waitingStatus(head) ?? (await findAccepted(engine, head, { name, refs })));
      if (head !== undefined && what !== undefined) found.set(head.id, `${STILL_WAITS}: ${what}`);
      if (breather.isDue) await breather.breathe();
    }
  return found;
}

/** Heads that somebody answered, with nothing saved since. */
function findAnswered(answers: Protections['answers']): Map<CheckpointId, string> {
  const answered = [...answers].flatMap(([answer, asking]) => asking.filter((id) => id < answer));
  return new Map(answered.map((id) => [id, `${STILL_WAITS}: answered, and not resumed since`]));
}

/** How a run says that it asked somebody. A single agent says the same when it has replied: it rests. */
const ASKED = 'waiting_for_input';

function waitingStatus({ status, agentId }: CheckpointHeader): string | undefined {
  if (status === ASKED && agentId !== undefined) return undefined;
  return status?.startsWith('waiting') ? `status ${status}` : undefined;
}

/** Messages that were accepted after the head was saved are in no state yet. */
async function findAccepted(
  engine: Engine,
  { sessionId, branch, effectCount = 0 }: CheckpointHeader,
  { name, refs }: { readonly name: string; readonly refs: readonly Ref[] },
): Promise<string | undefined> {
  const fromOrdinal = branch === name ? effectCount : 0;
  const log = refs.find((ref) => ref.kind === 'log' && ref.name === name);
  if (Number(log?.target ?? 0) <= fromOrdinal) return undefined;
  const effects = await readEffects(engine, { sessionId, branch: name, fromOrdinal });
  const accepted = effects.filter(
    (effect) => effect.name === ACCEPT_STEP && effect.status === 'done' && effect.result?.text !== NO_MESSAGE,
  );
  return accepted.length === 0 ? undefined : `${accepted.length} accepted since its last checkpoint`;
}
