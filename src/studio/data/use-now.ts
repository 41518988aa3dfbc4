import { useSyncExternalStore } from 'react';

const STEP_MS = 5_000;
let nowMs = Date.now();
const watchers = new Set<() => void>();
setInterval(() => {
  nowMs = Date.now();
  for (const tell of watchers) tell();
}, STEP_MS);

/** The time, every five seconds: for "3 min ago". */
export function useNow(): number {
  return useSyncExternalStore(
    (tell) => {
      watchers.add(tell);
      return () => watchers.delete(tell);
    },
    () => nowMs,
  );
}
