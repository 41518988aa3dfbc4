import { useEffect, useState } from 'react';
import { ask, type Reply } from '../data/server.ts';
import type { Timeline } from '../data/timeline.ts';
import { useRested } from '../data/use-rested.ts';
import type { Edit } from './use-draft.ts';

/** What the server says of an edit before anything is written. */
export type Preview = {
  readonly reply: Reply<'POST /v1/checkpoints/{checkpoint}/fork/preview'> | undefined;
  readonly error: Error | undefined;
};

/** The body that asks for an edit. */
export function bodyOf({ state, set }: Edit): { state?: never; set?: never } {
  return { ...(state !== undefined && { state: state as never }), ...(set !== undefined && { set: set as never }) };
}

/** Asks what an edit would change, as it is drawn. */
export function usePreview(id: string | undefined, edit: Edit): Preview {
  const [preview, setPreview] = useState<Preview>({ reply: undefined, error: undefined });
  useEffect(() => {
    if (id === undefined || edit.problem !== undefined) return undefined;
    const ends = new AbortController();
    const request = { params: { checkpoint: id }, body: bodyOf(edit), signal: ends.signal };
    ask('POST /v1/checkpoints/{checkpoint}/fork/preview', request).then(
      (reply) => setPreview({ reply, error: undefined }),
      (error) => ends.signal.aborted || setPreview({ reply: undefined, error }),
    );
    return () => ends.abort();
  }, [id, edit]);
  return preview;
}

/** Why a new branch cannot have this name, as it is typed; undefined if it can. */
export function useNameProblem(id: string, typed: string, timeline: Timeline): string | undefined {
  const branch = useRested(typed);
  const [found, setFound] = useState<{ readonly branch: string; readonly problem: string | undefined }>();
  useEffect(() => {
    if (branch === '') return undefined;
    const ends = new AbortController();
    const request = { params: { checkpoint: id }, body: { branch }, signal: ends.signal };
    ask('POST /v1/checkpoints/{checkpoint}/fork/preview', request).then(
      ({ branchProblem: problem }) => setFound({ branch, problem }),
      (error: unknown) => ends.signal.aborted || setFound({ branch, problem: (error as Error).message }),
    );
    return () => ends.abort();
  }, [id, branch]);
  if (timeline.branchNames.includes(typed)) return 'There is a branch of this name.';
  return found?.branch === typed ? found.problem : undefined;
}
