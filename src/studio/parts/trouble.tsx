import { ResponseError } from '../../server/client/client.ts';
import { useLiveStatus } from '../data/live.ts';
import type { Asked } from '../data/server.ts';
import { Icon } from './icon.tsx';

/** What to do about an error, by its code. */
const NEXT: Readonly<Record<string, string>> = {
  NOT_FOUND: 'It may have been deleted while this page was open. The list of sessions shows what is there.',
  CORRUPT:
    'The rest of the session can still be looked at. Run "savestate verify --read-data" to see all that is damaged.',
  CONFLICT: 'Somebody else changed it meanwhile. Look at the newest version, then try again.',
  STORAGE: 'The storage cannot be reached now. The page tries again with the next save.',
  ACCESS_DENIED: 'The token of this page is not that of the server, which was started again perhaps.',
  TIMEOUT: 'The server is busy, or this is very large. Ask for less, or try again.',
};

/** Says what is wrong where it happened, and what still works. */
export function Trouble({ error, compact = false }: { error: Error; compact?: boolean }) {
  const code = error instanceof ResponseError ? error.code : 'UNREACHABLE';
  const isGone = code === 'UNREACHABLE';
  if (useLiveStatus() === 'refused' && code === 'ACCESS_DENIED') return null; // the band above says it once
  const advice = NEXT[code] ?? (isGone ? 'What is loaded stays readable. Is "savestate studio" still running?' : '');
  return (
    <div role="alert" className="note danger" style={compact ? {} : { margin: 16 }}>
      <Icon name="error" small />
      <div>
        <p className="medium">{isGone ? 'The server does not answer.' : error.message}</p>
        {advice !== '' && <p className="t2">{advice}</p>}
      </div>
    </div>
  );
}

type MissingProps = { at?: string | null; branch?: string; onFollow: () => void };

/** Says that a link leads to a checkpoint or a branch that is not, or no longer, in the session. */
export function NotThere({ at = null, branch = '', onFollow }: MissingProps) {
  return (
    <div role="alert" className="note warn band">
      <Icon name="warn" small />
      <p className="grow">
        There is no {at === null ? 'branch' : 'checkpoint'} <span className="mono">{(at ?? branch).slice(0, 60)}</span>{' '}
        in this session. It may have been deleted.
      </p>
      <button type="button" className="btn sm" onClick={onFollow}>
        Go to the newest
      </button>
    </div>
  );
}

/** Shows what was asked for when it is there, and says so when it is not. */
export function Loaded<Value>({
  of: asked,
  children,
}: {
  of: Asked<Value>;
  children: (value: Value) => React.ReactNode;
}) {
  if (asked.value !== undefined) return children(asked.value);
  if (asked.error !== undefined) return <Trouble error={asked.error} />;
  return <Skeleton />;
}

const WIDTHS = [90, 73, 56, 79, 62, 85, 68, 51];

/** Rows to come, of the height they will have. */
export function Skeleton({ rows = 6 }: { rows?: number }) {
  return (
    <div aria-hidden="true" style={{ padding: 16, display: 'grid', gap: 24 }}>
      {WIDTHS.slice(0, rows).map((width) => (
        <div key={width} className="skeleton" style={{ width: `${width}%` }} />
      ))}
    </div>
  );
}
