import type { LanguageModel, ToolLoopAgentSettings, ToolSet } from 'ai';
import { checkValue, having, record } from '../../core/options.ts';
import type { Session } from '../../manager/session/session.ts';
import { DurableRun, type RunEnd } from './durable-run.ts';

/** Settings of an agent, of `generateText` or of `streamText`, in either version. */
export type DurableSettings = { readonly model: unknown; readonly tools?: object | undefined };

/** What is passed on: all but callbacks, whose types hang on what the run puts out. */
type PassedOn<Settings> = Omit<Settings, `on${string}` | `experimental_on${string}` | 'prepareCall' | 'output'>;

type Prepared = { readonly model?: LanguageModel; readonly tools?: Record<string, unknown> };
type Callbacks = {
  readonly prepareStep?: (options: Parameters<DurableRun['prepare']>[0]) => Prepared | PromiseLike<Prepared>;
  readonly prepareCall?: (options: object) => Prepared | PromiseLike<Prepared>;
  readonly onFinish?: (end: RunEnd) => unknown;
  readonly onEnd?: (end: RunEnd) => unknown;
};

/**
 * The same settings, whose runs are recorded in a session: begun again with the same input after a crash, in a session that was opened
 * again, a run gets what was recorded and goes on from there. A run that cannot be stored stops.
 */
export function durable<Tools extends ToolSet = Record<never, never>>(
  settings: ToolLoopAgentSettings<never, Tools>,
  session: Session,
): NoInfer<PassedOn<ToolLoopAgentSettings<never, Tools>>>;
export function durable<Settings extends DurableSettings>(settings: Settings, session: Session): Settings;
export function durable<Settings extends DurableSettings>(settings: Settings, session: Session): Settings {
  checkValue(settings, record, 'The settings of durable()');
  checkValue(session, having('step', 'save', 'update'), 'The session of durable()');
  const run = new DurableRun(session);
  const { prepareStep, prepareCall, onEnd, onFinish } = settings as Callbacks;
  const wrapParts = <Parts extends Prepared>(parts: Parts): Parts => ({
    ...parts,
    ...(parts?.model !== undefined && { model: run.model(parts.model) }),
    ...(parts?.tools !== undefined && { tools: run.tools(parts.tools) }),
  });
  const hooks: Callbacks = {
    prepareStep: async (options) => {
      await run.prepare(options);
      return wrapParts((await prepareStep?.(options)) ?? {});
    },
    // Version 7 calls onFinish only where there is no onEnd.
    [onEnd === undefined ? 'onFinish' : 'onEnd']: async (end: RunEnd) => {
      await run.finish(end);
      await (onEnd ?? onFinish)?.(end);
    },
    ...(prepareCall !== undefined && { prepareCall: async (options) => wrapParts(await prepareCall(options)) }),
  };
  return { ...wrapParts({ ...settings, model: settings.model ?? null } as Settings & Prepared), ...hooks };
}
