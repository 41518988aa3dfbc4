import { findLeftOut, marksIn } from '../../core/secret/left-out.ts';
import type { StepAttempt } from '../../manager/effect/step.ts';
import { askedOf, type EffectCall, type Effects } from '../agent/effects.ts';
import { failedOutcome, type ToolOutcome } from '../agent/tool.ts';
import type { CodeResult } from '../code/code-executor.ts';
import { describeFailure } from '../code/describe-outcome.ts';
import type { MoveWorks } from './work.ts';

/** A call by which an agent acts. */
export type ActingCall = EffectCall & { readonly kind: 'tool' | 'code' };

/** Whether an agent acts by a call. */
export function isActing(call: EffectCall): call is ActingCall {
  return call.kind === 'tool' || call.kind === 'code';
}

/** What an agent gets in place of a result when a call is not made. */
export function refuseCall(call: ActingCall, text: string): ToolOutcome | { readonly result: CodeResult } {
  if (call.kind === 'tool') return failedOutcome(text);
  const { language = 'text' } = call.input as { readonly language?: string };
  return { result: describeFailure(text, { language, durationMs: 0 }) };
}

/** Refuses to act with what stands for a secret: after a resume, longer strings have a mark where the secret was. */
export class GuardedTools implements Effects {
  readonly #works: MoveWorks;
  readonly #effects: Effects;
  readonly #restored: unknown;
  #marks: ReadonlySet<string> | undefined;

  constructor(works: MoveWorks, restored: unknown, effects: Effects = works) {
    this.#works = works;
    this.#effects = effects;
    this.#restored = restored;
  }

  async run<Result>(call: EffectCall, perform: (attempt: StepAttempt) => Promise<Result>): Promise<Result> {
    const marks = { has: (mark: string) => this.#isLeftOut(mark) };
    const place = isActing(call) ? findLeftOut(askedOf(call), marks) : undefined;
    if (place === undefined || !isActing(call)) return this.#effects.run(call, perform);
    const what = call.kind === 'tool' ? 'the tool was not called. Call it again' : 'the code was not run. Run it again';
    const text = `The secret at ${place} of the input was left out when the run was stored, so ${what} with the secret.`;
    return this.#works.run(call, async () => refuseCall(call, text) as Result);
  }

  /** A string that only looks like a mark is let through: it counts if something that was restored has it. */
  #isLeftOut(mark: string): boolean {
    this.#marks ??= marksIn(this.#restored);
    return this.#marks.has(mark) || marksIn(this.#works.current.replayed).has(mark);
  }
}
