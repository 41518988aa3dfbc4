import { InvalidInputError, UnsupportedError } from '../../core/errors.ts';
import type { OnDifference } from '../../manager/agent/agent-saving.ts';
import type { Difference } from '../run/differences.ts';
import { type Fingerprint, firstChange, stepOf } from './definition/fingerprint.ts';
import type { ApprovalRequest, RunState } from './step/run-state.ts';

/** Says how runs of an older definition go on under the new one. */
export type WorkflowMigration = {
  readonly workflow: string;
  /** The digest of the older definition's fingerprint; the refusal names it. */
  readonly from: string;
  /** Old step to new step; the same name keeps a result although the step changed; null forgets it, so that the step runs. */
  readonly steps: { readonly [path: string]: string | null };
};

/** How a run may go on under the definition it is resumed with. */
export type ChangeRequest = {
  readonly state: RunState;
  readonly fingerprint: Fingerprint;
  /** The paths of what was running when the process ended. */
  readonly inFlight: readonly string[];
  readonly migrations: readonly WorkflowMigration[];
  /** Unless `fail`, results of changed steps are kept as they are. */
  readonly onDifference: OnDifference;
};

/** The state to go on with, and the changed steps whose results were kept. */
export type Adopted = { readonly state: RunState; readonly differences: readonly Difference[] };

/**
 * The state to go on with. Steps that have not begun may change freely. For one that has, the change is refused before anything runs,
 * unless a migration says what becomes of it.
 */
export function adoptChange(request: ChangeRequest): Adopted {
  const { state, fingerprint, inFlight, migrations, onDifference } = request;
  const before = state.fingerprint;
  const begun = new Set([...begunPaths(state), ...inFlight].map(stepOf));
  const changed = [...begun].filter((path) => before.steps[path] !== fingerprint.steps[path]);
  const migration = migrations.find(({ workflow, from }) => workflow === state.workflow && from === before.digest);
  const unmapped = changed.filter((path) => target(migration, path) === undefined);
  if (unmapped.length > 0 && onDifference === 'fail') throw refusal(request, unmapped);
  const differences = unmapped.map((path) => describeChange(path, fingerprint));
  if (migration === undefined) return { state: { ...state, fingerprint }, differences };
  checkTargets(request, migration, [...begun]);
  return { state: migrate(request, migration), differences };
}

/** A step that a migration loses would run again, and so would one of two that it makes one. */
function checkTargets(
  { state, fingerprint }: ChangeRequest,
  migration: WorkflowMigration,
  begun: readonly string[],
): void {
  const moves = begun.flatMap((path) => {
    const to = target(migration, path);
    return to === null ? [] : [{ path, to: to ?? path, isMoved: to !== undefined }];
  });
  for (const { path, to, isMoved } of moves) {
    const other = moves.find((one) => one.to === to && one.path !== path);
    const isKnown = fingerprint.steps[to] !== undefined;
    if (!isMoved || (isKnown && other === undefined)) continue;
    const why = isKnown ? `to which "${other?.path}" belongs` : 'which the workflow does not have';
    throw new InvalidInputError(
      `A migration of workflow "${state.workflow}" moves step "${path}" to "${to}", ${why}.`,
      {
        details: { workflow: state.workflow, step: path, to },
      },
    );
  }
}

function describeChange(path: string, { steps }: Fingerprint): Difference {
  const isGone = steps[path] === undefined;
  const text = `Step "${path}", which has begun, ${isGone ? 'is not in the workflow any more' : 'changed'}.`;
  return { path: `$.steps.${path}`, kind: isGone ? 'missing' : 'changed', text };
}

function begunPaths({ ends, requests, timers, tries }: RunState): string[] {
  const asked = Object.values(requests).map(({ path }) => path);
  return [...ends.map(({ path }) => path), ...asked, ...Object.keys(timers), ...Object.keys(tries)];
}

function target(migration: WorkflowMigration | undefined, path: string): string | null | undefined {
  if (migration === undefined || !Object.hasOwn(migration.steps, path)) return undefined;
  return migration.steps[path];
}

function refusal({ state, fingerprint }: ChangeRequest, unmapped: readonly string[]): UnsupportedError {
  const { workflow, fingerprint: before } = state;
  const order = Object.keys(before.steps);
  const [affected] = unmapped.toSorted((a, b) => order.indexOf(a) - order.indexOf(b));
  const changed = firstChange(before, fingerprint) ?? affected;
  const why = changed === affected ? '' : ` That concerns "${affected}", which has begun.`;
  return new UnsupportedError(
    `Workflow "${workflow}" was changed since this run began: step "${changed}" is not what it was.${why} Resume with the old definition, declare a migration from "${before.digest}", or pass onDifference: 'accept' (--on-difference accept at the command line) to keep the results as they are.`,
    { details: { workflow, step: changed, affected, from: before.digest, to: fingerprint.digest } },
  );
}

function migrate({ state, fingerprint, inFlight }: ChangeRequest, migration: WorkflowMigration): RunState {
  const move = (path: string): string[] => movePath(path, migration);
  const moved = inFlight.find((path) => move(path)[0] !== path);
  if (moved !== undefined) {
    throw new UnsupportedError(
      `Step "${moved}" of workflow "${state.workflow}" was running when its process ended, and the migration moves it. Resume with the old definition until it has ended.`,
      { details: { workflow: state.workflow, step: moved } },
    );
  }
  return {
    ...state,
    fingerprint,
    migrations: state.migrations + 1,
    ends: state.ends.flatMap((end) => move(end.path).map((path) => ({ ...end, path }))),
    requests: Object.fromEntries(Object.values(state.requests).flatMap((request) => moveRequest(request, move))),
    timers: moveKeys(state.timers, move),
    tries: moveKeys(state.tries, move),
    failures: state.failures.flatMap((failure) => move(failure.path).map((path) => ({ ...failure, path }))),
  };
}

function moveRequest(request: ApprovalRequest, move: (path: string) => string[]): [string, ApprovalRequest][] {
  return move(request.path).map((path) => {
    const id = `${path}${request.id.slice(request.path.length)}`;
    return [id, { ...request, id, path }];
  });
}

function moveKeys<Value>(
  byPath: { readonly [path: string]: Value },
  move: (path: string) => string[],
): { readonly [path: string]: Value } {
  return Object.fromEntries(Object.entries(byPath).flatMap(([path, value]) => move(path).map((to) => [to, value])));
}

/** The new path, or none if the step is forgotten. Turns of loops stay: `old[2]` becomes `new[2]`. */
function movePath(path: string, migration: WorkflowMigration): string[] {
  const step = stepOf(path);
  const to = target(migration, step);
  if (to === undefined || to === step) return [path];
  if (to === null) return [];
  const turns = path.split('/').map((part) => part.slice(stepOf(part).length));
  const names = to.split('/');
  const offset = names.length - turns.length;
  return [names.map((name, at) => `${name}${turns[at - offset] ?? ''}`).join('/')];
}
