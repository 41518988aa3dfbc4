import { useEffect, useState } from 'react';
import { TimelineReader, type TimelineView } from './timeline.ts';

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
