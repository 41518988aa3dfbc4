import { useEffect, useRef } from 'react';

/** What keys do on a screen: `j`, `Ctrl+k`, `g s` (one after the other). */
export type KeyMap = Readonly<Record<string, () => void>>;

/** The longest pause between two keys that belong together. */
const CHORD_MS = 1_000;

/** The keys of everything that is shown. */
const shown = new Set<{ readonly current: KeyMap }>();

/** Does what a key does here, for those who chose that elsewhere. */
export function doKey(key: string): void {
  for (const keys of shown) keys.current[key]?.();
}

let lead: { readonly key: string; readonly atMs: number } | undefined;

/** Single letters can be switched off, for those whose tools type by themselves (WCAG 2.1.4). */
export function hasLetterKeys(): boolean {
  return localStorage.getItem('letterKeys') !== 'off';
}

/** Keys of a screen, while it is shown. Not while somebody types into a field. */
export function useKeys(keys: KeyMap): void {
  const latest = useRef(keys);
  latest.current = keys;
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      const action = actionOf(event, latest.current);
      if (action === undefined) return;
      event.preventDefault();
      action();
    };
    addEventListener('keydown', press);
    shown.add(latest);
    return () => {
      removeEventListener('keydown', press);
      shown.delete(latest);
    };
  }, []);
}

function actionOf(event: KeyboardEvent, keys: KeyMap): (() => void) | undefined {
  if (event.key === 'Escape' && document.querySelector(':popover-open') !== null) return undefined; // which the browser closes
  const held = event.ctrlKey || event.metaKey ? 'Ctrl+' : event.altKey ? 'Alt+' : '';
  const name = `${held}${event.key}`;
  if (event.defaultPrevented || (held === '' && event.key !== 'Escape' && isForField(event))) return undefined;
  if (held === '' && event.key.length === 1 && !hasLetterKeys()) return undefined;
  const isChord = lead !== undefined && event.timeStamp - lead.atMs < CHORD_MS;
  const chord = isChord ? `${lead?.key} ${name}` : name;
  lead = { key: name, atMs: event.timeStamp };
  return keys[chord] ?? keys[name];
}

/** Whether the field that has the focus takes this key: all of them where somebody types, those that choose where somebody chooses. */
function isForField({ target, key }: KeyboardEvent): boolean {
  if (!(target instanceof HTMLElement)) return false;
  const isChoice = target.matches('input[type="radio"], input[type="checkbox"]');
  return isChoice
    ? key.length > 1 || key === ' '
    : target.closest('input, textarea, select, [contenteditable]') !== null;
}
