/** Names that Windows takes for devices, whatever follows a dot. */
const DEVICE = /^(?:con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$)(?:\.|$)/i;

/** What Windows does not let stand in a name, or takes off its end. */
const NOT_ON_WINDOWS = /[<>:"|?*\\\p{Cc}]|[. ]$/u;

/** Longest path that is taken from a state; that of Linux. */
const MAX_PATH_CHARS = 4096;

/** Says what is wrong with a path that a captured state can never hold; undefined if it is one that stays inside a folder. */
export function findPathFault(path: string): string | undefined {
  if (path === '' || path.length > MAX_PATH_CHARS) return 'is empty or too long';
  if (path.includes('\0')) return 'holds a NUL';
  if (path.startsWith('/')) return 'is absolute';
  if (!path.isWellFormed()) return 'is not well-formed Unicode';
  const parts = path.split('/');
  if (parts.includes('..') || parts.includes('.')) return 'goes up or nowhere';
  return parts.includes('') ? 'has an empty part' : undefined;
}

/** Says why a path cannot be made on a platform where it means something else; undefined if it can. */
export function findReservedName(path: string, platform: NodeJS.Platform): string | undefined {
  if (platform !== 'win32') return undefined;
  const name = path.split('/').find((part) => DEVICE.test(part) || NOT_ON_WINDOWS.test(part));
  return name === undefined ? undefined : `"${name}" is a reserved name on Windows`;
}

/**
 * Whether a link stays inside the folder: its target is relative and goes up only at its beginning, no further than to the top.
 * Going up later would depend on where other links lead.
 */
export function staysInside(linkPath: string, target: string, platform: NodeJS.Platform): boolean {
  if (target === '' || target.includes('\0') || target.startsWith('/')) return false;
  if (platform === 'win32' && /[:\\]/.test(target)) return false;
  const parts = target.split('/').filter((part) => part !== '' && part !== '.');
  const firstDown = parts.findIndex((part) => part !== '..');
  const ups = firstDown < 0 ? parts.length : firstDown;
  return ups <= linkPath.split('/').length - 1 && !parts.slice(ups).includes('..');
}

/** The form in which file systems that ignore case compare paths. */
export function foldCase(path: string): string {
  return path.normalize('NFC').toLowerCase();
}

/** The folders above a path, nearest last. */
export function ancestorsOf(path: string): string[] {
  const ancestors: string[] = [];
  for (let at = path.indexOf('/'); at >= 0; at = path.indexOf('/', at + 1)) ancestors.push(path.slice(0, at));
  return ancestors;
}

/** Orders paths so that a folder comes before what is inside it, and that before its neighbours. */
export function comparePaths(a: string, b: string): number {
  const left = a.replaceAll('/', '\0');
  const right = b.replaceAll('/', '\0');
  return left < right ? -1 : left > right ? 1 : 0;
}
