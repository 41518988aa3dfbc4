import { InvalidInputError } from '../../../core/errors.ts';
import type { Expression } from '../../../core/expression/parse-expression.ts';
import { parseDuration } from '../../config/duration.ts';
import type { KeyPath, Problem } from '../../config/problem.ts';
import type { ProblemSource } from '../../config/yaml-source.ts';
import type { StepDefinition } from './definition-schema.ts';
import type { StepDraft } from './step-draft.ts';
import { parseCondition, parseTemplate, type Template } from './template.ts';
import type { Action, ApprovalAction, Loop, OnError, RetryPolicy, WorkflowStep } from './workflow.ts';

const ACTIONS = ['agent', 'function', 'workflow', 'approval', 'wait'] as const;
const DEFAULT_DELAY_MS = 1_000;
const DEFAULT_MAX_DELAY_MS = 300_000;
const DEFAULT_OPTIONS = ['approve', 'reject'];
const NEVER: Template = { kind: 'constant', value: undefined };

/** Makes a step of what was written, and says what does not fit together. */
export class StepBuilder {
  readonly problems: Problem[] = [];
  readonly #source: ProblemSource;
  readonly #isCheckpointed: boolean;

  constructor(source: ProblemSource, { checkpoint }: { readonly checkpoint: boolean }) {
    this.#source = source;
    this.#isCheckpointed = checkpoint;
  }

  build(draft: StepDraft): WorkflowStep | undefined {
    const { id, definition, path } = draft;
    const action = this.#action(draft);
    if (action === undefined) return undefined;
    this.#checkModifiers(draft, action);
    return {
      id,
      title: definition.name ?? id,
      action,
      needs: draft.needs,
      when: draft.when.map(({ text, path: at }) => this.#condition(text, at)),
      loop: this.#loop(definition, path),
      retry: toRetry(definition.retry),
      timeoutMs: definition.timeout_ms ?? parseDuration(definition.timeout),
      onError: toOnError(definition.on_error),
      checkpoint: definition.checkpoint ?? this.#isCheckpointed,
      operation: definition.operation,
      meaning: meaningOf(draft),
    };
  }

  #action({ definition, path, members }: StepDraft): Action | undefined {
    if (members !== undefined) return { kind: 'join', of: members };
    const [kind, another] = ACTIONS.filter((action) => definition[action] !== undefined);
    if (kind !== undefined && another === undefined) return this.#actionOf(kind, definition, path);
    const found = kind === undefined ? 'none' : `${kind} and ${another}`;
    this.#complain(path, `must have one of ${ACTIONS.join(', ')}, parallel; found ${found}.`);
    return undefined;
  }

  #actionOf(kind: (typeof ACTIONS)[number], definition: StepDefinition, path: KeyPath): Action {
    if (kind === 'approval') return this.#approval(definition.approval, [...path, 'approval']);
    if (kind === 'wait') return this.#wait(definition.wait, [...path, 'wait']);
    const input = 'input' in definition ? this.#template(definition.input, [...path, 'input']) : undefined;
    return { kind, name: definition[kind] ?? '', input };
  }

  #approval(approval: StepDefinition['approval'], path: KeyPath): ApprovalAction {
    const { message = '', options = DEFAULT_OPTIONS, timeout, on_timeout: onTimeout = 'wait' } = approval ?? {};
    if (onTimeout !== 'wait' && timeout === undefined) this.#complain([...path, 'on_timeout'], 'needs a timeout.');
    const timeoutMs = parseDuration(timeout);
    return { kind: 'approval', message: this.#template(message, [...path, 'message']), options, timeoutMs, onTimeout };
  }

  #wait(wait: StepDefinition['wait'], path: KeyPath): Action {
    if (typeof wait !== 'object') return { kind: 'wait', durationMs: parseDuration(wait) ?? 0 };
    return { kind: 'wait_until', time: this.#template(wait.until, [...path, 'until']) };
  }

  #loop({ for_each: forEach, repeat }: StepDefinition, path: KeyPath): Loop | undefined {
    if (forEach !== undefined && repeat !== undefined)
      this.#complain([...path, 'repeat'], 'cannot be together with for_each; put one of them into a sub-workflow.');
    if (repeat !== undefined) {
      const until = this.#condition(repeat.until, [...path, 'repeat', 'until']);
      return { kind: 'repeat', until, limit: repeat.limit };
    }
    if (forEach === undefined) return undefined;
    const { items, concurrency = 1 } = typeof forEach === 'string' ? { items: forEach } : forEach;
    return { kind: 'for_each', items: this.#template(items, [...path, 'for_each']), concurrency };
  }

  /** What only makes sense where code runs, or where there is an input. */
  #checkModifiers({ definition, path }: StepDraft, action: Action): void {
    const runsCode = action.kind === 'function' || action.kind === 'agent';
    const misplaced = [
      ...(runsCode ? [] : (['retry', 'timeout', 'timeout_ms'] as const)),
      ...(runsCode || action.kind === 'workflow' ? [] : (['operation', 'input'] as const)),
    ].filter((key) => definition[key] !== undefined);
    for (const key of misplaced) this.#complain([...path, key], `does not apply to ${describeKind(action)}.`);
    if (definition.timeout !== undefined && definition.timeout_ms !== undefined)
      this.#complain([...path, 'timeout_ms'], 'says the same as timeout; give one of them.');
  }

  #template(value: unknown, path: KeyPath): Template {
    return this.#understand(path, NEVER, () => parseTemplate(value));
  }

  #condition(text: string | boolean, path: KeyPath): Expression {
    const none: Expression = { kind: 'literal', value: false };
    if (typeof text === 'boolean') return { kind: 'literal', value: text };
    return this.#understand(path, none, () => parseCondition(text));
  }

  #understand<Parsed>(path: KeyPath, otherwise: Parsed, parse: () => Parsed): Parsed {
    try {
      return parse();
    } catch (error) {
      if (!(error instanceof InvalidInputError)) throw error;
      this.#complain(path, error.message);
      return otherwise;
    }
  }

  #complain(path: KeyPath, message: string): void {
    this.problems.push(this.#source.place(path, message));
  }
}

function describeKind({ kind }: Action): string {
  if (kind === 'join') return 'a group';
  return kind === 'approval'
    ? 'an approval; it has a timeout of its own'
    : `a ${kind === 'wait_until' ? 'wait' : kind}`;
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
function meaningOf({ definition, needs, when, members }: StepDraft): unknown {
  const { agent, function: called, workflow, approval, wait, input, repeat, on_error, operation } = definition;
  const forEach = typeof definition.for_each === 'object' ? definition.for_each.items : definition.for_each;
  const ask = approval === undefined ? undefined : [approval.message, approval.options];
  const conditions = when.map(({ text }) => text);
  return {
    agent,
    called,
    workflow,
    ask,
    wait,
    input,
    repeat,
    forEach,
    on_error,
    operation,
    needs,
    conditions,
    members,
  };
}
