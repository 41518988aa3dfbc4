import type { CheckpointManager } from '../manager/checkpoint-manager.ts';
import { fieldsOf } from '../manager/revision/transcript.ts';
import { CHAT } from '../runtime/chat/chat-kind.ts';
import { FLEET } from '../runtime/fleet/fleet-kind.ts';
import { type AnyRequest, RequestAnswers, type RequestForm } from '../runtime/run/request-answers.ts';
import { APPROVALS } from '../runtime/workflow/step/approvals.ts';

/** What kind of run a session holds. */
export type RunKind = 'group_chat' | 'fleet' | 'workflow_run';
type AnyForm = RequestForm<unknown, AnyRequest>;

/** How each kind of run holds what it asks. */
export const REQUEST_FORMS: Readonly<Record<RunKind, AnyForm>> = {
  group_chat: CHAT.requests as unknown as AnyForm,
  fleet: FLEET.requests as unknown as AnyForm,
  workflow_run: APPROVALS as unknown as AnyForm,
};

/** The kind of run that a state is of; undefined if of none. */
export function runKindOf(state: unknown): RunKind | undefined {
  const { kind } = fieldsOf(state);
  return typeof kind === 'string' && Object.hasOwn(REQUEST_FORMS, kind) ? (kind as RunKind) : undefined;
}

/** What people are asked in a state, answered elsewhere or not. */
export function requestsIn(state: unknown): readonly AnyRequest[] {
  const kind = runKindOf(state);
  return kind === undefined ? [] : Object.values(REQUEST_FORMS[kind].requestsOf(state));
}

/** Where a run is. */
export type RunPlace = { readonly sessionId: string; readonly branch: string; readonly state: unknown };

/** What people are asked there, and nobody answered, here or elsewhere. */
export async function findOpenRequests(
  manager: CheckpointManager,
  { state, ...place }: RunPlace,
): Promise<readonly AnyRequest[]> {
  const kind = runKindOf(state);
  return kind === undefined ? [] : new RequestAnswers(manager, REQUEST_FORMS[kind]).unanswered(place, state);
}
