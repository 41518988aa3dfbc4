import { z } from 'zod';
import { messageOf } from '../../core/errors.ts';
import * as is from '../../core/options.ts';
import { checkOptions, describeValue, isRecord, type OptionCheck, type OptionChecks } from '../../core/options.ts';
import { findLeftOut } from '../../core/secret/left-out.ts';
import { withDeadline } from '../../core/time/deadline.ts';
import { digestText } from '../../core/tree/chunk.ts';
import { toJson } from '../../core/value/to-json.ts';
import type { StepAttempt } from '../../manager/effect/step.ts';
import type { JsonObject, ToolSpec } from '../model/chat-model.ts';

/** What a tool gets besides its input. */
export type ToolContext = {
  readonly attempt: number;
  /** The same for every attempt of one call, wherever it comes among others: give it to the outside system. */
  readonly idempotencyKey: string;
  /** Aborts when the call takes too long, or the run is stopped. */
  readonly signal: AbortSignal;
};

/** Something an agent can do. Code is never stored: a restored agent finds its tools by name in the registry. */
export type Tool<Input = unknown> = {
  readonly name: string;
  readonly description: string;
  readonly input: z.ZodType<Input>;
  readonly run: (input: Input, context: ToolContext) => unknown;
  /** Default: a minute. */
  readonly timeoutMs?: number;
  /** What a tool returns beyond this is cut off, and says so. Default: 20,000. */
  readonly maxResultChars?: number;
};

/** How a call of a tool ended. A tool that fails is an answer to the model, not the end of the run. */
export type ToolOutcome = {
  readonly isError: boolean;
  /** What the model is told. */
  readonly text: string;
  /** Where a failure came from. */
  readonly trace?: string;
};

const TOOL_NAME = /^[A-Za-z0-9_-]{1,64}$/;
const DEFAULT_TIMEOUT_MS = 60_000;
const DEFAULT_MAX_CHARS = 20_000;
const MAX_TRACE_CHARS = 4_000;

const atLeastNothing = is.accepts('a number of 0 or more', (value) => typeof value === 'number' && value >= 0);

const zodSchema: OptionCheck = (value) => {
  if (isRecord(value) && '_zod' in value && typeof value.safeParseAsync === 'function') return undefined;
  return `must be a schema of zod 4, such as z.object({ city: z.string() }); found ${describeValue(value)}. Of a JSON Schema, pass z.fromJSONSchema(schema)`;
};

const TOOL: OptionChecks<Tool> = {
  name: {
    required: is.accepts(
      '1 to 64 letters, digits, "_" or "-"',
      (value) => typeof value === 'string' && TOOL_NAME.test(value),
    ),
  },
  description: { required: is.string },
  input: { required: zodSchema },
  run: { required: is.callback },
  timeoutMs: atLeastNothing,
  maxResultChars: atLeastNothing,
};

/** Accepts a tool; what it has besides is its own. */
export const tool: OptionCheck = (value) => {
  if (!isRecord(value)) return `must be a tool made with defineTool(); found ${describeValue(value)}`;
  const missing = ['name', 'description', 'input', 'run'].filter((key) => value[key] === undefined);
  if (missing.length > 0) return `lacks ${missing.join(', ')}; make tools with defineTool()`;
  return is.options(TOOL)(Object.fromEntries(Object.keys(TOOL).map((key) => [key, value[key]])));
};

/** Defines a tool, with the input typed by its schema. */
export function defineTool<Schema extends z.ZodType>(
  given: Omit<Tool, 'input' | 'run'> & {
    readonly input: Schema;
    readonly run: (input: z.infer<Schema>, context: ToolContext) => unknown;
  },
): Tool {
  checkOptions(given, TOOL, 'defineTool()');
  return given as Tool;
}

/** A tool as a model is told of it. */
export function describeTool({ name, description, input }: Tool): ToolSpec {
  return {
    name,
    description,
    inputSchema: z.toJSONSchema(input, { io: 'input', unrepresentable: 'any' }) as JsonObject,
  };
}

/** Changes whenever what models are told of the tool does. */
export function fingerprintTool(tool: Tool): string {
  return digestText(JSON.stringify(describeTool(tool))).slice(0, 16);
}

/** Calls a tool. Whatever it does, there is an outcome: wrong input, a throw, no answer in time, too much of it. Only a stopped run throws. */
export async function callTool(tool: Tool, input: unknown, attempt: StepAttempt): Promise<ToolOutcome> {
  const place = findLeftOut(input);
  if (place !== undefined)
    return failedOutcome(
      `The secret at ${place} of the input is not stored, so the tool was not called. Call it again with the secret.`,
    );
  const { timeoutMs = DEFAULT_TIMEOUT_MS, maxResultChars = DEFAULT_MAX_CHARS } = tool;
  const late = new Error(`No answer within ${timeoutMs} ms.`);
  const deadline = { signal: attempt.signal, timeoutMs, onTimeout: () => late, keepsProcessAlive: false };
  try {
    return await withDeadline(deadline, async (signal) => {
      // Inside, because schemas may hold code of the tool: it throws and hangs like the rest.
      const parsed = await tool.input.safeParseAsync(input);
      signal.throwIfAborted();
      if (!parsed.success) return failedOutcome(`The input does not fit: ${z.prettifyError(parsed.error)}`);
      const { attempt: number, idempotencyKey } = attempt;
      const value = await tool.run(parsed.data, { attempt: number, idempotencyKey, signal });
      return { isError: false, text: cut(formatValue(value), maxResultChars) };
    });
  } catch (error) {
    attempt.signal?.throwIfAborted();
    return failedOutcome(messageOf(error), error === late ? undefined : error);
  }
}

/** The outcome of a call that failed, or was not made. */
export function failedOutcome(message: string, error?: unknown): ToolOutcome {
  const text = `Error: ${cut(message, MAX_TRACE_CHARS)}`;
  const trace = error instanceof Error ? error.stack : undefined;
  return { isError: true, text, ...(trace !== undefined && { trace: cut(trace, MAX_TRACE_CHARS) }) };
}

/** A value as text for a model: texts and numbers as they are, the rest as JSON as far as that goes. */
function formatValue(value: unknown): string {
  if (typeof value === 'string' || typeof value === 'number') return String(value);
  if (value === undefined) return 'Done.';
  try {
    return JSON.stringify(value, (_, item: unknown) => toJson(item)) ?? String(value);
  } catch (error) {
    return `The tool ran, but its result cannot be shown: ${messageOf(error)}`;
  }
}

/** Half a character is not left over: providers refuse texts that have one. */
function cut(text: string, maxChars: number): string {
  if (text.length <= maxChars) return text;
  const kept = text.slice(0, maxChars).replace(/[\uD800-\uDBFF]$/, '');
  return `${kept}\n[cut off: ${text.length - kept.length} of ${text.length} characters]`;
}
