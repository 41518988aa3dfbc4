import { createHash } from 'node:crypto';
import { z } from 'zod';
import { InvalidInputError } from '../../core/errors.ts';
import { isRecord } from '../../core/options.ts';
import { ancestorsOf, findPathFault } from './workspace-path.ts';

/**
 * A file as it was. `content` is text where the bytes are UTF-8, because frozen texts cost nothing to save again and are redacted like
 * every text; bytes otherwise; absent if a limit left it out. `digest` is the SHA-256 of the bytes.
 */
export type WorkspaceFile = {
  readonly kind: 'file';
  readonly mode: number;
  readonly sizeBytes: number;
  readonly digest: string;
  readonly content?: string | Uint8Array;
};

/** A symbolic link as it was, wherever it pointed. `digest` is the SHA-256 of its target. */
export type WorkspaceLink = { readonly kind: 'link'; readonly target: string; readonly digest: string };

/** A folder as it was. */
export type WorkspaceFolder = { readonly kind: 'folder'; readonly mode: number };

/** One path of a working directory. */
export type WorkspaceEntry = WorkspaceFile | WorkspaceLink | WorkspaceFolder;

/** Why something was left out. A file over a limit keeps its entry, without content. */
export type SkipReason = 'file-limit' | 'total-limit' | 'entry-limit' | 'special' | 'unreadable' | 'name' | 'changing';

/** Something that was left out. `.` is the whole folder: beyond the limit of entries nothing is known. */
export type SkippedPath = { readonly path: string; readonly reason: SkipReason };

/** The files of a working directory at one moment: plain, deeply frozen data by relative path. Bytes in it must not be written to. */
export type WorkspaceState = {
  readonly entries: Readonly<Record<string, WorkspaceEntry>>;
  readonly skipped: readonly SkippedPath[];
  /** The patterns that were in force; what they fit is no part of the state, and stays as it is on restore. */
  readonly ignored: readonly string[];
};

/** What is known of a folder that was never captured. */
export const NOT_CAPTURED = { entries: {}, skipped: [{ path: '.' }], ignored: [] };

const mode = z.int().min(0).max(0o777);
const digest = z.string().regex(/^[0-9a-f]{64}$/);
const entrySchema = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('file'),
    mode,
    sizeBytes: z.int().nonnegative(),
    digest,
    // Redaction may have put something else in its place; that is told when it is needed.
    content: z.unknown().optional(),
  }),
  z.object({ kind: z.literal('link'), target: z.unknown(), digest }),
  z.object({ kind: z.literal('folder'), mode }),
]);
const frameSchema = z.object({
  entries: z.custom<object>(isRecord),
  skipped: z.array(z.object({ path: z.string() })),
  ignored: z.array(z.string().max(1000)).max(2000),
});

/** A state whose paths all stay inside a folder. What stands in place of a content or target is still to be looked at. */
export type CheckedState = {
  readonly entries: ReadonlyMap<string, CheckedEntry>;
  readonly skipped: readonly string[];
  readonly ignored: readonly string[];
};

/** An entry of a checked state. */
export type CheckedEntry = z.infer<typeof entrySchema>;

/** Checks a state that comes from a checkpoint; throws an InvalidInputError that names the path at fault. */
export function checkWorkspaceState(state: unknown): CheckedState {
  const frame = frameSchema.safeParse(state);
  if (!frame.success) throw refuse('$', z.prettifyError(frame.error));
  const entries = new Map<string, CheckedEntry>();
  for (const [path, value] of Object.entries(frame.data.entries)) {
    const fault = findPathFault(path);
    if (fault !== undefined) throw refuse(path, `it ${fault}`);
    const entry = entrySchema.safeParse(value);
    if (!entry.success) throw refuse(path, z.prettifyError(entry.error));
    entries.set(path, entry.data);
  }
  for (const path of entries.keys()) {
    const parent = ancestorsOf(path).find((ancestor) => entries.get(ancestor)?.kind !== 'folder');
    if (parent !== undefined) throw refuse(path, `"${parent}" above it is not a folder`);
  }
  return { entries, skipped: frame.data.skipped.map(({ path }) => path), ignored: frame.data.ignored };
}

function refuse(path: string, problem: string): InvalidInputError {
  return new InvalidInputError(
    `${JSON.stringify(path)} cannot be part of a working directory: ${problem}. The state was not made by captureWorkspace, or was altered.`,
    { details: { path } },
  );
}

/** The digest by which contents are compared. */
export function digestContent(content: string | Uint8Array): string {
  return createHash('sha256').update(content).digest('hex');
}
