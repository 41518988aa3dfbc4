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
  if (isCovered(event.key)) return undefined;
  const held = event.ctrlKey || event.metaKey ? 'Ctrl+' : event.altKey ? 'Alt+' : '';
  const name = `${held}${event.key}`;
  if (event.defaultPrevented || (held === '' && event.key !== 'Escape' && isForField(event))) return undefined;
  if (held === '' && event.key.length === 1 && !hasLetterKeys()) return undefined;
  const isChord = lead !== undefined && event.timeStamp - lead.atMs < CHORD_MS;
  const chord = isChord ? `${lead?.key} ${name}` : name;
  lead = { key: name, atMs: event.timeStamp };
  return keys[chord] ?? keys[name];
}

/** Whether something lies above the page that the key is for: a dialog takes all of them, of a menu the browser knows how to close it. */
function isCovered(key: string): boolean {
  return document.querySelector(key === 'Escape' ? 'dialog[open], :popover-open' : 'dialog[open]') !== null;
}

/** Whether what has the focus takes this key: a field all of them where somebody types, those that choose where somebody chooses; what can be pressed, those that press. */
function isForField({ target, key }: KeyboardEvent): boolean {
  // A dialog that was just closed may keep the focus for a moment.
  if (!(target instanceof HTMLElement) || target.closest('dialog:not([open])') !== null) return false;
  if ((key === 'Enter' || key === ' ') && target.closest('button, a, summary') !== null) return true;
  const isChoice = target.matches('input[type="radio"], input[type="checkbox"]');
  return isChoice
    ? key.length > 1 || key === ' '
    : target.closest('input, textarea, select, [contenteditable]') !== null;
}
