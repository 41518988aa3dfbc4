import { evaluate, isTrue, type Lookup } from '../../../core/expression/evaluate.ts';
import { render } from '../definition/template.ts';
import type { Workflow, WorkflowStep } from '../definition/workflow.ts';
import type { StepEnd, StepFailure } from './run-state.ts';

/** What steps of one workflow see of each other while it runs: the input and how the others ended. */
export class Scope {
  readonly workflow: Workflow;
  readonly input: unknown;
  readonly #prefix: string;
  readonly #ends = new Map<string, StepEnd>();
  readonly #begun = new Set<string>();
  readonly #jumpedOver = new Set<string>();
  /** The failure that stopped it: nothing new begins, what has begun may end. */
  failure: StepFailure | undefined;

  constructor(workflow: Workflow, { input, prefix = '' }: { readonly input: unknown; readonly prefix?: string }) {
    this.workflow = workflow;
    this.input = input;
    this.#prefix = prefix;
  }

  pathOf({ id }: WorkflowStep): string {
    return `${this.#prefix}${id}`;
  }

  /** What names mean in references. */
  readonly lookup: Lookup = (root) => {
    if (root === 'steps') return this.#ends;
    return root === 'input' ? this.input : undefined;
  };

  begin({ id }: WorkflowStep): void {
    this.#begun.add(id);
  }

  isSkipped({ id, when }: WorkflowStep): boolean {
    return this.#jumpedOver.has(id) || !when.every((condition) => isTrue(evaluate(condition, this.lookup)));
  }

  /** Notes how a step ended; after a failure with a `goto` all that lies between is skipped, unless it has begun. */
  end({ id, onError }: WorkflowStep, end: StepEnd): 'ended' {
    this.#ends.set(id, end);
    if (end.status !== 'failed' || onError.kind !== 'goto') return 'ended';
    const { order } = this.workflow;
    const between = order.slice(order.indexOf(id) + 1, order.indexOf(onError.target));
    for (const over of between) if (!this.#begun.has(over)) this.#jumpedOver.add(over);
    return 'ended';
  }

  outputOf(id: string): unknown {
    return this.#ends.get(id)?.output;
  }

  outputsOf(ids: readonly string[]): unknown {
    return Object.fromEntries(ids.map((id) => [id, this.outputOf(id)]));
  }

  /** What a step gets if it does not say: the output of what it needs, or the input of the workflow. */
  defaultInput({ needs }: WorkflowStep): unknown {
    const [only, another] = needs;
    if (only === undefined) return this.input;
    return another === undefined ? this.outputOf(only) : this.outputsOf(needs);
  }

  output(): unknown {
    const { output, order } = this.workflow;
    return output === undefined ? this.outputOf(order.at(-1) ?? '') : render(output, this.lookup);
  }
}
