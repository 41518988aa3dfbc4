import { useEffect, useState } from 'react';
import { ask, type Reply } from '../data/server.ts';
import type { Edit } from './fork-screen.tsx';

/** What the server says of an edit before anything is written. */
export type Preview = {
  readonly reply: Reply<'POST /v1/checkpoints/{checkpoint}/fork/preview'> | undefined;
  readonly error: Error | undefined;
};

/** Whoever types is not asked about every letter. */
const REST_MS = 250;

/** The body that asks for an edit. */
export function bodyOf({ state, set }: Edit): { state?: never; set?: never } {
  return { ...(state !== undefined && { state: state as never }), ...(set !== undefined && { set: set as never }) };
}

/** Asks what an edit would change, a moment after the last key. */
export function usePreview(id: string | undefined, edit: Edit): Preview {
  const [preview, setPreview] = useState<Preview>({ reply: undefined, error: undefined });
  useEffect(() => {
    if (id === undefined || edit.problem !== undefined) return undefined;
    const ends = new AbortController();
    const timer = setTimeout(async () => {
      try {
        const request = { params: { checkpoint: id }, body: bodyOf(edit), signal: ends.signal };
        setPreview({ reply: await ask('POST /v1/checkpoints/{checkpoint}/fork/preview', request), error: undefined });
      } catch (error) {
        if (!ends.signal.aborted) setPreview({ reply: undefined, error: error as Error });
      }
    }, REST_MS);
    return () => {
      clearTimeout(timer);
      ends.abort();
    };
  }, [id, edit]);
  return preview;
}
