import { withoutUndefined } from '../../core/defined.ts';

/** Options with values as they are typed, each after a space; a password or token is not repeated. */
export function formatFlags(given: Readonly<Record<string, string | undefined>>): string {
  return Object.entries(withoutUndefined(given))
    .map(([name, value]) => ` --${name} ${quote(value ?? '')}`)
    .join('');
}

/** As a shell takes it. */
function quote(value: string): string {
  const shown = value.replace(/^(\w+:\/\/[^:/@]+):[^@]*@/, '$1:***@').replace(/^(https?:[^#]*?)\/?#.*/is, '$1');
  return /^[\w@%+=:,./~-]+$/.test(shown) ? shown : `'${shown.replaceAll("'", String.raw`'\''`)}'`;
}
