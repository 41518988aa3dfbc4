import { useEffect, useState } from 'react';
import { TimelineReader, type TimelineView } from './timeline.ts';
import { useReply } from './use-reply.ts';

/** All checkpoints of a session, followed as they are saved. */
export function useTimeline(sessionId: string): TimelineView {
  const [, redraw] = useState(0);
  const [reader, setReader] = useState(() => new TimelineReader(sessionId, () => redraw((n) => n + 1)));
  useEffect(() => {
    const fresh = new TimelineReader(sessionId, () => redraw((n) => n + 1));
    setReader(fresh);
    return fresh.start();
  }, [sessionId]);
  return reader.view;
}

/** A session and its timeline, which then knows of all branches. */
export function useSession(sessionId: string) {
  const view = useTimeline(sessionId);
  const session = useReply('GET /v1/sessions/{session}', { params: { session: sessionId } });
  if (session.value !== undefined) view.timeline.placeBare(session.value.branches);
  return { view, session };
}
