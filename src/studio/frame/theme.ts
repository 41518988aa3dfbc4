import { useSyncExternalStore } from 'react';
import { forgetColours } from './canvas-colours.ts';

/** What a person chose; `system` follows the computer. */
export type Theme = 'system' | 'light' | 'dark';

const watchers = new Set<() => void>();
const dark = matchMedia('(prefers-color-scheme: dark)');

function read(): Theme {
  const asked = new URLSearchParams(location.search).get('theme') ?? localStorage.getItem('theme');
  return asked === 'light' || asked === 'dark' ? asked : 'system';
}

let chosen = read();

function show(): void {
  if (chosen === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
  forgetColours();
  for (const tell of watchers) tell();
}

dark.addEventListener('change', show);
show();

/** Goes on to the next theme: as the system, light, dark. */
export function nextTheme(): void {
  chosen = chosen === 'system' ? (dark.matches ? 'light' : 'dark') : chosen === 'light' ? 'dark' : 'light';
  localStorage.setItem('theme', chosen);
  show();
}

/** The theme that is shown. */
export function useTheme(): 'light' | 'dark' {
  return useSyncExternalStore(
    (tell) => {
      watchers.add(tell);
      return () => watchers.delete(tell);
    },
    () => (chosen === 'system' ? (dark.matches ? 'dark' : 'light') : chosen),
  );
}
