import type { Attributes, Span } from '@opentelemetry/api';
import { importPeer } from '../../core/import-peer.ts';
import { refuseFurther } from '../../core/options.ts';
import type { Telemetry, TracedOutcome, TracedWork } from '../../manager/engine/events.ts';

type Api = typeof import('@opentelemetry/api');

/** The names that are used here. Those of `gen_ai` are in development upstream; that of a checkpoint is proposed there. */
const NAMES = {
  operation: 'gen_ai.operation.name',
  conversation: 'gen_ai.conversation.id',
  agent: 'gen_ai.agent.id',
  tool: 'gen_ai.tool.name',
  checkpoint: 'gen_ai.agent.checkpoint.id',
  resumedFrom: 'gen_ai.agent.resumed_from.id',
  resumedFromType: 'gen_ai.agent.resumed_from.type',
  error: 'error.type',
  branch: 'savestate.branch',
  sequence: 'savestate.sequence',
  type: 'savestate.checkpoint.type',
  trigger: 'savestate.trigger',
  bytes: 'savestate.state.bytes',
  digest: 'savestate.state.digest',
  isReplayed: 'savestate.step.replayed',
} as const;

/** Gives saves, steps and restores of a manager spans of OpenTelemetry: pass it as `telemetry`. Needs the package `@opentelemetry/api`. */
export async function openTelemetry(): Promise<Telemetry>;
export async function openTelemetry(...further: []): Promise<Telemetry> {
  refuseFurther(further, 'openTelemetry()', 'Configure the SDK of OpenTelemetry');
  const api = await importPeer('@opentelemetry/api', () => import('@opentelemetry/api'), 'savestate/opentelemetry');
  const tracer = api.trace.getTracer('savestate');
  return {
    trace: (work, run) =>
      tracer.startActiveSpan(
        work.kind === 'step' ? `execute_tool ${work.name}` : `savestate.${work.kind}`,
        { attributes: describe(work) },
        async (span) => {
          try {
            return await run((outcome) => tellOutcome(span, work, outcome));
          } catch (error) {
            tellError(api, span, error);
            throw error;
          } finally {
            span.end();
          }
        },
      ),
  };
}

function describe({ kind, sessionId, name }: TracedWork): Attributes {
  const own = kind === 'step' ? { [NAMES.operation]: 'execute_tool', [NAMES.tool]: name } : {};
  return { [NAMES.conversation]: sessionId, ...own };
}

function tellOutcome(span: Span, { kind }: TracedWork, { checkpoint, isReplayed }: TracedOutcome): void {
  if (isReplayed !== undefined) span.setAttribute(NAMES.isReplayed, isReplayed);
  if (checkpoint === undefined) return;
  const { id, agentId, branch, sequence, type, trigger, stateBytes, stateDigest } = checkpoint;
  const about = { [NAMES.branch]: branch, [NAMES.sequence]: sequence, [NAMES.type]: type, [NAMES.trigger]: trigger };
  const state = { [NAMES.bytes]: stateBytes, [NAMES.digest]: stateDigest };
  span.setAttributes({ ...about, ...state, [NAMES.agent]: agentId });
  if (kind === 'save') span.addEvent('gen_ai.agent.checkpointed', { [NAMES.checkpoint]: id });
  else span.addEvent('gen_ai.agent.resumed', { [NAMES.resumedFrom]: id, [NAMES.resumedFromType]: 'checkpoint' });
}

function tellError({ SpanStatusCode }: Api, span: Span, error: unknown): void {
  const { code, name } = (error ?? {}) as { code?: unknown; name?: unknown };
  span.setAttribute(NAMES.error, String(code ?? name ?? typeof error));
  span.setStatus({ code: SpanStatusCode.ERROR }); // its message may hold what must not leave the process
}
