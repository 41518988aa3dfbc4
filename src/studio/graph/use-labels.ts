import { useEffect, useRef, useState } from 'react';
import { ask } from '../data/server.ts';
import type { Label } from './draw-graph.ts';

/** At most so many are asked for at once. */
const BATCH = 200;
/** Rows that only fly by are not asked for. */
const REST_MS = 60;

/** The words of the checkpoints on the screen; those that were asked for stay. */
export function useLabels(ids: readonly string[]): ReadonlyMap<string, Label> {
  const labels = useRef(new Map<string, Label>());
  const [, redraw] = useState(0);
  const missing = ids.filter((id) => !labels.current.has(id)).slice(0, BATCH);
  const wanted = missing.join(',');
  useEffect(() => {
    if (wanted === '') return undefined;
    const timer = setTimeout(async () => {
      const reply = await ask('GET /v1/labels', { query: { ids: wanted as never } }).catch(() => undefined);
      if (reply === undefined) return; // the server is gone: asked again with the next rows
      for (const id of wanted.split(',')) labels.current.set(id, { speaker: undefined, text: '' });
      for (const { id, speaker, text, tools } of reply.items)
        labels.current.set(id, { speaker, text: text || tools.join(', ') });
      redraw((n) => n + 1);
    }, REST_MS);
    return () => clearTimeout(timer);
  }, [wanted]);
  return labels.current;
}
