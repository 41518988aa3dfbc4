import { InvalidInputError } from '../../../core/errors.ts';
import type { Expression } from '../../../core/expression/parse-expression.ts';
import { isRecord } from '../../../core/options.ts';
import { parseDuration } from '../../config/duration.ts';
import type { KeyPath, Problem } from '../../config/problem.ts';
import { checkSchema } from '../../config/schema-problems.ts';
import type { ProblemSource } from '../../config/yaml-source.ts';
import { ID, type StepDefinition, stepSchema } from './definition-schema.ts';
import { parseCondition, parseTemplate, type Template } from './template.ts';
import type { Action, Loop, OnError, RetryPolicy, WorkflowStep } from './workflow.ts';

/** A step as it was read: where it stands, what it needs, and what runs; no step if it was not understood. */
export type ReadStep = {
  readonly id: string;
  readonly path: KeyPath;
  readonly needs: readonly string[];
  readonly step: WorkflowStep | undefined;
};

/** A step as it was written, and what its place says about it. */
type Written = {
  readonly definition: StepDefinition;
  readonly path: KeyPath;
  readonly needs: readonly string[];
  /** The condition of the group it is in. */
  readonly outer?: Written;
  /** The members, if it is a group; it ends when they have. */
  readonly members?: readonly string[];
};

const ACTIONS = ['agent', 'function', 'workflow', 'approval', 'wait'] as const;
const GROUP_KEYS = new Set(['id', 'name', 'description', 'parallel', 'needs', 'when', 'checkpoint']);
const DEFAULT_DELAY_MS = 1_000;
const DEFAULT_MAX_DELAY_MS = 300_000;
const DEFAULT_OPTIONS = ['approve', 'reject'];

/** Reads steps one by one, so that one mistake does not hide the others. A group becomes its members and a step that needs them all. */
export class StepReader {
  readonly read: ReadStep[] = [];
  readonly problems: Problem[] = [];
  /** All ids, also of steps that are not understood, so that references to them are not a second problem. */
  readonly ids = new Set<string>();
  readonly #source: ProblemSource;
  readonly #isCheckpointed: boolean;

  constructor(source: ProblemSource, steps: readonly unknown[], { checkpoint }: { readonly checkpoint: boolean }) {
    this.#source = source;
    this.#isCheckpointed = checkpoint;
    let previous: string | undefined;
    for (const [at, value] of steps.entries()) previous = this.#read(value, ['steps', at], previous) ?? previous;
  }

  #read(value: unknown, path: KeyPath, previous: string | undefined): string | undefined {
    const { value: definition, problems } = checkSchema({ source: this.#source, schema: stepSchema, value, path });
    this.problems.push(...problems);
    if (definition === undefined) return this.#noteId(value);
    const id = this.#idOf(definition, path);
    if (id === undefined) return undefined;
    const needs = toList(definition.needs ?? previous ?? []);
    if (definition.parallel === undefined) this.#add(id, { definition, path, needs });
    else this.#addGroup(id, { definition, path, needs });
    return id;
  }

  #noteId(value: unknown): string | undefined {
    const { id, name } = isRecord(value) ? value : {};
    const known = id ?? name;
    if (typeof known !== 'string') return undefined;
    this.ids.add(known);
    return known;
  }

  #idOf({ id, name }: StepDefinition, path: KeyPath): string | undefined {
    const found = id ?? name;
    if (found === undefined) return this.#complain(path, 'needs an id.');
    if (id === undefined && !ID.test(found))
      return this.#complain([...path, 'name'], `"${found}" cannot be an id, and there is no other. Add an id.`);
    if (this.ids.has(found))
      return this.#complain([...path, id === undefined ? 'name' : 'id'], `"${found}" is taken by another step.`);
    this.ids.add(found);
    return found;
  }

  #addGroup(id: string, group: Written): void {
    for (const key of Object.keys(group.definition))
      if (!GROUP_KEYS.has(key))
        this.#complain([...group.path, key], 'does not apply to a group; say it of its members.');
    const members: string[] = [];
    for (const [at, definition] of (group.definition.parallel ?? []).entries()) {
      const path = [...group.path, 'parallel', at];
      const memberId = this.#idOf(definition, path);
      if (memberId === undefined) continue;
      members.push(memberId);
      const needs = [...new Set([...group.needs, ...toList(definition.needs ?? [])])];
      this.#add(memberId, { definition, path, needs, outer: group });
    }
    this.#add(id, { ...group, needs: [...new Set([...group.needs, ...members])], members });
  }

  #add(id: string, written: Written): void {
    const { path, needs } = written;
    this.read.push({ id, path, needs, step: this.#build(id, written) });
  }

  #build(id: string, written: Written): WorkflowStep | undefined {
    const { definition, path, needs } = written;
    const action = this.#action(written);
    if (action === undefined) return undefined;
    this.#checkModifiers(written, action);
    return {
      id,
      title: definition.name ?? id,
      action,
      needs,
      when: conditionsOf(written).map(({ text, path: at }) => this.#condition(text, at)),
      loop: this.#loop(definition, path),
      retry: toRetry(definition.retry),
      timeoutMs: parseDuration(definition.timeout),
      onError: toOnError(definition.on_error),
      checkpoint: definition.checkpoint ?? this.#isCheckpointed,
      operation: definition.operation,
      meaning: meaningOf(written),
    };
  }

  #action({ definition, path, members }: Written): Action | undefined {
    if (members !== undefined) return { kind: 'join', of: members };
    const [kind, another] = ACTIONS.filter((action) => definition[action] !== undefined);
    if (kind === undefined || another !== undefined) {
      const found = kind === undefined ? 'none' : `${kind} and ${another}`;
      return this.#complain(path, `must have one of ${ACTIONS.join(', ')}, parallel; found ${found}.`);
    }
    if (kind === 'approval') return this.#approval(definition.approval, [...path, 'approval']);
    if (kind === 'wait') return this.#wait(definition.wait, [...path, 'wait']);
    const input = 'input' in definition ? this.template(definition.input, [...path, 'input']) : undefined;
    return { kind, name: definition[kind] ?? '', input };
  }

  #approval(approval: StepDefinition['approval'], path: KeyPath): Action {
    const { message = '', options = DEFAULT_OPTIONS, timeout, on_timeout: onTimeout = 'wait' } = approval ?? {};
    if (onTimeout !== 'wait' && timeout === undefined) this.#complain([...path, 'on_timeout'], 'needs a timeout.');
    const timeoutMs = parseDuration(timeout);
    return { kind: 'approval', message: this.template(message, [...path, 'message']), options, timeoutMs, onTimeout };
  }

  #wait(wait: StepDefinition['wait'], path: KeyPath): Action {
    if (typeof wait !== 'object') return { kind: 'wait', durationMs: parseDuration(wait) ?? 0 };
    return { kind: 'wait_until', time: this.template(wait.until, [...path, 'until']) };
  }

  #loop({ for_each: forEach, repeat }: StepDefinition, path: KeyPath): Loop | undefined {
    if (forEach !== undefined && repeat !== undefined)
      this.#complain([...path, 'repeat'], 'cannot be together with for_each; put one of them into a sub-workflow.');
    if (repeat !== undefined) {
      const until = this.#condition(repeat.until, [...path, 'repeat', 'until']);
      return { kind: 'repeat', until, limit: repeat.limit };
    }
    if (forEach === undefined) return undefined;
    const { items, concurrency = 1 } = toItems(forEach);
    return { kind: 'for_each', items: this.template(items, [...path, 'for_each']), concurrency };
  }

  /** What only makes sense where code runs, or where there is an input. */
  #checkModifiers({ definition, path }: Written, action: Action): void {
    const runsCode = action.kind === 'function' || action.kind === 'agent';
    const misplaced = [
      ...(runsCode ? [] : (['retry', 'timeout'] as const)),
      ...(runsCode || action.kind === 'workflow' ? [] : (['operation', 'input'] as const)),
    ].filter((key) => definition[key] !== undefined);
    for (const key of misplaced) this.#complain([...path, key], `does not apply to ${KINDS[action.kind]}.`);
  }

  /** What cannot be understood is a problem, and stands for nothing. */
  template(value: unknown, path: KeyPath): Template {
    return this.#understand(path, () => parseTemplate(value)) ?? { kind: 'constant', value: undefined };
  }

  #condition(text: string | boolean, path: KeyPath): Expression {
    const parsed = typeof text === 'string' ? this.#understand(path, () => parseCondition(text)) : undefined;
    return parsed ?? { kind: 'literal', value: text };
  }

  #understand<Parsed>(path: KeyPath, parse: () => Parsed): Parsed | undefined {
    try {
      return parse();
    } catch (error) {
      if (!(error instanceof InvalidInputError)) throw error;
      return this.#complain(path, error.message);
    }
  }

  #complain(path: KeyPath, message: string): undefined {
    this.problems.push(this.#source.place(path, message));
  }
}

const KINDS: Readonly<Record<Action['kind'], string>> = {
  agent: 'an agent',
  function: 'a function',
  workflow: 'a workflow',
  approval: 'an approval; it has a timeout of its own',
  wait: 'a wait',
  wait_until: 'a wait',
  join: 'a group',
};

function conditionsOf({ definition, path, outer }: Written): { text: string | boolean; path: KeyPath }[] {
  const above = outer === undefined ? [] : conditionsOf(outer);
  return definition.when === undefined ? above : [...above, { text: definition.when, path: [...path, 'when'] }];
}

function toList(needs: string | readonly string[]): readonly string[] {
  return typeof needs === 'string' ? [needs] : needs;
}

function toItems(forEach: StepDefinition['for_each']): {
  readonly items?: unknown;
  readonly concurrency?: number | undefined;
} {
  return typeof forEach === 'object' && !Array.isArray(forEach) ? forEach : { items: forEach };
}

function toRetry(retry: StepDefinition['retry']): RetryPolicy {
  const { max_attempts: maxAttempts = 1, delay, factor = 2, max_delay: maxDelay } = retry ?? {};
  return {
    maxAttempts,
    delayMs: parseDuration(delay) ?? DEFAULT_DELAY_MS,
    factor,
    maxDelayMs: parseDuration(maxDelay) ?? DEFAULT_MAX_DELAY_MS,
  };
}

function toOnError(onError: StepDefinition['on_error']): OnError {
  if (typeof onError === 'object') return { kind: 'goto', target: onError.goto };
  return { kind: onError ?? 'stop' };
}

/** Leaves out what a result does not depend on: names for people, pauses, limits of time, when to save. */
function meaningOf(written: Written): unknown {
  const { definition, needs, members } = written;
  const { agent, function: called, workflow, approval, wait, input, repeat, on_error, operation } = definition;
  const forEach = toItems(definition.for_each).items;
  const ask = approval === undefined ? undefined : [approval.message, approval.options];
  const conditions = conditionsOf(written).map(({ text }) => text);
  const does = { agent, called, workflow, ask, wait, input, repeat, forEach, on_error, operation };
  return { ...does, needs, conditions, members };
}
