import { useEffect, useRef } from 'react';

/** What keys do on a screen: `j`, `Ctrl+k`, `g s` (one after the other). */
export type KeyMap = Readonly<Record<string, () => void>>;

/** The longest pause between two keys that belong together. */
const CHORD_MS = 1_000;

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
    return () => removeEventListener('keydown', press);
  }, []);
}

function actionOf(event: KeyboardEvent, keys: KeyMap): (() => void) | undefined {
  const isTyping =
    event.target instanceof HTMLElement && event.target.closest('input, textarea, select, [contenteditable]') !== null;
  const held = event.ctrlKey || event.metaKey ? 'Ctrl+' : event.altKey ? 'Alt+' : '';
  const name = `${held}${event.key}`;
  if (event.defaultPrevented || (isTyping && held === '' && event.key !== 'Escape')) return undefined;
  if (held === '' && event.key.length === 1 && !hasLetterKeys()) return undefined;
  const isChord = lead !== undefined && event.timeStamp - lead.atMs < CHORD_MS;
  const chord = isChord ? `${lead?.key} ${name}` : name;
  lead = { key: name, atMs: event.timeStamp };
  return keys[chord] ?? keys[name];
}
