import { z } from 'zod';
import { InvalidInputError } from '../../core/errors.ts';
import { MAX_DELAY_MS } from '../../core/time/timer.ts';
import { workspaceOptionsSchema } from '../workspace/workspace-options.ts';
import type { CodeExecutionConfig } from './code-executor.ts';

const schema = z.union([
  z.literal(false),
  z.strictObject({
    workDir: z
      .string()
      .min(1)
      .refine((path) => !path.includes('\0'), 'must not hold a NUL'),
    timeoutMs: z.int().positive().max(MAX_DELAY_MS).optional(),
    maxOutputBytes: z.int().nonnegative().optional(),
    languages: z.array(z.string().min(1)).readonly().optional(),
    env: z
      .array(z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/))
      .readonly()
      .optional(),
    capture: z.union([z.literal(false), workspaceOptionsSchema]).optional(),
  }),
]);

/** Reads a stored or hand-written configuration of code execution; throws an InvalidInputError that names the field. */
export function parseCodeExecutionConfig(value: unknown): CodeExecutionConfig {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw new InvalidInputError(
    `The configuration of code execution is neither false nor { workDir, ... }: ${z.prettifyError(parsed.error)}`,
    { details: { field: 'codeExecution' } },
  );
}
