import { withoutUndefined } from '../../core/defined.ts';
import * as is from '../../core/options.ts';
import { checkOptions, type OptionCheck, type OptionChecks } from '../../core/options.ts';

/** What of a working directory is captured; plain data, stored with an agent's configuration. */
export type WorkspaceOptions = {
  /** Patterns in the manner of .gitignore, after the built-in ones; `!name` takes one of those back. */
  readonly ignore?: readonly string[] | undefined;
  /** A larger file is captured without its content; default 8 MiB. */
  readonly maxFileBytes?: number | undefined;
  /** What the contents may have together; default 64 MiB. Files that do not fit are captured without content. */
  readonly maxTotalBytes?: number | undefined;
  /** How many paths are captured; default 10,000. */
  readonly maxEntries?: number | undefined;
  /** Store contents so that redaction leaves them alone: files with secrets can be restored, and the secrets are in the checkpoint. */
  readonly keepSecrets?: boolean | undefined;
};

/** The options with nothing left open. */
export type WorkspaceLimits = {
  readonly [Option in keyof WorkspaceOptions]-?: NonNullable<WorkspaceOptions[Option]>;
};

const MEBIBYTE = 1024 * 1024;
const DEFAULTS = {
  maxFileBytes: 8 * MEBIBYTE,
  maxTotalBytes: 64 * MEBIBYTE,
  maxEntries: 10_000,
  keepSecrets: false,
};

/** What can be made again, belongs to other tools, or is there to hold secrets. */
const DEFAULT_IGNORE: readonly string[] = [
  'node_modules/',
  '.git/',
  '.hg/',
  '.svn/',
  '__pycache__/',
  '*.pyc',
  '.venv/',
  'venv/',
  '.cache/',
  '.pytest_cache/',
  '.mypy_cache/',
  '.ruff_cache/',
  '.ipynb_checkpoints/',
  '.npm/',
  '.DS_Store',
  '.env',
  '.netrc',
  '.ssh/',
  '.aws/',
  '*.pem',
];

/** Patterns may come with a stored configuration. */
const MAX_PATTERNS = 1000;
const MAX_PATTERN_CHARS = 1000;

const patterns: OptionCheck = (value) => {
  if (Array.isArray(value) && value.length > MAX_PATTERNS) return `must be a list of at most ${MAX_PATTERNS} patterns`;
  const isShort = (pattern: unknown) => typeof pattern === 'string' && pattern.length <= MAX_PATTERN_CHARS;
  return is.listOf(is.accepts(`a string of at most ${MAX_PATTERN_CHARS} characters`, isShort))(value);
};

/** What is checked of options, given or stored. */
export const WORKSPACE: OptionChecks<WorkspaceOptions> = {
  ignore: patterns,
  maxFileBytes: is.wholeFrom(0),
  maxTotalBytes: is.wholeFrom(0),
  maxEntries: is.wholeFrom(0),
  keepSecrets: is.flag,
};

/** Fills in the defaults. */
export function resolveWorkspaceOptions(options: WorkspaceOptions = {}): WorkspaceLimits {
  checkOptions(options, WORKSPACE, 'a working directory');
  const given = withoutUndefined(options);
  return { ...DEFAULTS, ...given, ignore: [...DEFAULT_IGNORE, ...(given.ignore ?? [])] };
}
