import { useRef, useState } from 'react';
import { encodeSegment } from '../../server/contract/segment.ts';
import { ask, newKey, type Reply, replies } from '../data/server.ts';
import { useReply, useReplyIf } from '../data/use-reply.ts';

/** Whether recorded calls are made again. */
export const MODES = ['live', 'recorded', 'frozen'] as const;
export type Mode = (typeof MODES)[number];

/** What a team is asked to do. */
export type Wanted = { readonly at?: string; readonly rounds?: number; readonly mode?: Mode; readonly prompt?: string };

const KINDS = new Set(['group_chat', 'fleet', 'workflow_run']);

type Run = Reply<'GET /v1/sessions/{session}/run'>;

/** Why a conversation is over, so that only new words let it go on; undefined: it is not. After a limit of rounds, more rounds do. */
export function overOf(run: Run | undefined): string | undefined {
  const { reason, detail } = (run?.end ?? {}) as { readonly reason?: unknown; readonly detail?: unknown };
  return typeof detail === 'string' && reason !== 'max_rounds' ? detail : undefined;
}

/** Whether nobody is asked any more, and the run only has to be continued. */
export function isAnswered({ requests, answered }: Pick<Run, 'requests' | 'answered'>): boolean {
  return requests === 0 && answered > 0;
}

/** A run of a team: what it is, and what can be done with it from here. */
export type RunView = {
  /** Undefined where a session is no run of a workflow or a team. */
  readonly run: Run | undefined;
  /** The team that the server may run; undefined: none, so only commands and code are shown. */
  readonly team: string | undefined;
  readonly isRunning: boolean;
  readonly error: Error | undefined;
  /** `isAsSeen`: only if the session is still what this page shows. */
  readonly start: (wanted: Wanted, isAsSeen?: boolean) => Promise<boolean>;
  readonly pause: () => void;
};

/** The run of a session, whose state is of this kind. The server alone says whether it may be run: nothing that is stored does. */
export function useRun(sessionId: string, kind: string | undefined): RunView {
  const params = { session: sessionId };
  const { value: server } = useReply('GET /v1/server');
  const isRun = useRef(false); // kept while the next checkpoint is read
  isRun.current = kind === undefined ? isRun.current : KINDS.has(kind);
  const asked = isRun.current ? { params, query: { rounds: false as never } } : undefined;
  const { value: run } = useReplyIf('GET /v1/sessions/{session}/run', asked);
  const [error, setError] = useState<Error>();
  const act = async (work: () => Promise<unknown>): Promise<boolean> => {
    setError(undefined);
    try {
      await work();
      return true;
    } catch (problem) {
      setError(problem as Error);
      return false;
    } finally {
      replies.refresh((url) => url.includes(`/v1/sessions/${encodeSegment(sessionId)}`));
    }
  };
  const etag = replies.etagOf('GET /v1/sessions/{session}', { params });
  const unmoved = etag === undefined ? {} : { ifMatch: etag };
  return {
    run,
    team: run !== undefined && run.kind !== 'workflow_run' ? server?.team : undefined,
    isRunning: run?.active?.status === 'running',
    error,
    start: (body, isAsSeen = false) =>
      act(() =>
        ask('POST /v1/sessions/{session}/run', {
          params,
          body,
          idempotencyKey: newKey(),
          ...(isAsSeen && unmoved),
        }),
      ),
    pause: () => void act(() => ask('DELETE /v1/sessions/{session}/run', { params })),
  };
}
