import { isAbsolute, relative, resolve } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { resolveWorkspaceOptions, type WorkspaceLimits } from '../workspace/workspace-options.ts';
import type { CodeExecutionConfig } from './code-executor.ts';
import { interpreterOf, KNOWN_LANGUAGES } from './interpreter.ts';

type Config = Exclude<CodeExecutionConfig, false>;
type Capture = WorkspaceLimits | false;

/** A configuration with nothing left open. */
export function completeCode({ workDir, timeoutMs, maxOutputBytes, languages, env, capture }: Config) {
  return {
    workDir: resolve(workDir),
    timeoutMs: timeoutMs ?? 60_000,
    maxOutputBytes: maxOutputBytes ?? 100_000,
    languages: languages ?? KNOWN_LANGUAGES,
    env: env ?? [],
    capture: capture !== false && { ...resolveWorkspaceOptions(capture), ignore: capture?.ignore ?? [] },
  };
}

/** What a configuration says, field by field, as paths of a state name them. */
export function describeCode(config: CodeExecutionConfig): Readonly<Record<string, unknown>> {
  if (config === false) return { codeExecution: false };
  const fields = Object.entries({ ...completeCode(config), workDir: config.workDir });
  return { codeExecution: true, ...Object.fromEntries(fields.map(([key, value]) => [`codeExecution.${key}`, value])) };
}

/** The fields in which two configurations differ; only `codeExecution` itself if one of them is off. */
export function compareCode(before: CodeExecutionConfig, now: CodeExecutionConfig): string[] {
  const [was, is] = [describeCode(before), describeCode(now)];
  return Object.keys(was).filter((key) => Object.hasOwn(is, key) && !isDeepStrictEqual(was[key], is[key]));
}

/** What both of two configurations allow; off if their folders have nothing in common. */
export function narrowCode(asked: CodeExecutionConfig, allowed: CodeExecutionConfig): CodeExecutionConfig {
  if (asked === false || allowed === false) return false;
  const workDir = isWithin(allowed.workDir, asked.workDir) ? asked.workDir : allowed.workDir;
  if (!isWithin(asked.workDir, workDir)) return false;
  const [a, b] = [completeCode(asked), completeCode(allowed)];
  const narrowed = {
    workDir,
    timeoutMs: Math.min(a.timeoutMs, b.timeoutMs),
    maxOutputBytes: Math.min(a.maxOutputBytes, b.maxOutputBytes),
    languages: a.languages.filter((one) => b.languages.some((other) => interpreterOf(other) === interpreterOf(one))),
    env: a.env.filter((name) => b.env.includes(name)),
    capture: narrowCapture(a.capture, b.capture),
  };
  return isDeepStrictEqual(completeCode(narrowed), a) ? asked : narrowed;
}

/** What either leaves out is left out; only what both take back is taken back. */
function narrowCapture(asked: Capture, allowed: Capture): Capture {
  if (asked === false || allowed === false) return false;
  const shared = asked.ignore.filter((pattern) => !pattern.startsWith('!') || allowed.ignore.includes(pattern));
  const more = allowed.ignore.filter((pattern) => !pattern.startsWith('!') && !shared.includes(pattern));
  return {
    ignore: [...shared, ...more],
    maxFileBytes: Math.min(asked.maxFileBytes, allowed.maxFileBytes),
    maxTotalBytes: Math.min(asked.maxTotalBytes, allowed.maxTotalBytes),
    maxEntries: Math.min(asked.maxEntries, allowed.maxEntries),
    keepSecrets: asked.keepSecrets && allowed.keepSecrets,
  };
}

/** Whether a path is a folder or below it. */
export function isWithin(folder: string, path: string): boolean {
  const way = relative(resolve(folder), resolve(path));
  return !isAbsolute(way) && way !== '..' && !way.startsWith('../');
}
