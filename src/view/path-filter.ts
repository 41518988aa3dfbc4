import { formatPath, type PathStep } from '../core/path.ts';
import { parseStatePath } from './state-path.ts';

/** Whether a change is at the path, below it, or holds it. */
export function createPathFilter(text: string | undefined): (path: string) => boolean {
  if (text === undefined) return () => true;
  const wanted = parseStatePath(text).map((step): PathStep => (/^\d+$/.test(String(step)) ? Number(step) : step));
  const prefix = formatPath(wanted);
  return (path) => path === prefix || isBelow(path, prefix) || isBelow(prefix, path);
}

function isBelow(path: string, prefix: string): boolean {
  return path.startsWith(prefix) && /[.[<]/.test(path.charAt(prefix.length));
}
