import { suggest } from '../../core/suggestion.ts';

/** Operations that need a person's word unless the settings say otherwise. */
export const NEEDING_APPROVAL = ['code_execution', 'file_operations', 'external_api_calls', 'sensitive_data_access'];

/** How long people have unless the settings say otherwise. */
export const APPROVAL_TIMEOUT_SECONDS = 300;

/** Operations that are trusted unless the settings say otherwise. */
export const TRUSTED = ['web_search', 'data_analysis'];

const KNOWN = [...NEEDING_APPROVAL, ...TRUSTED];
const MAX_SLIPS = 2;

/** What is wrong with the name of an operation or tool: nearly a known one would pass for one of the caller's own, and nobody would be asked. */
export function findSlip(name: string, names: readonly string[] = []): string | undefined {
  const all = [...KNOWN, ...names];
  if (all.includes(name) || name.includes('*')) return undefined;
  const known = suggest(name, all, MAX_SLIPS);
  if (known === undefined || Math.abs(known.length - name.length) > MAX_SLIPS) return undefined;
  return `"${name}" is nearly "${known}". Did you mean "${known}"? If not, choose a name that is less like it.`;
}
