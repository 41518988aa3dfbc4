import type { ReactNode } from 'react';
import { Link } from '../frame/link.tsx';
import { sessionAddress } from '../frame/place.ts';

/** Where one is: the sessions, this one, and what is open of it. */
export function Crumbs({ sessionId, children }: { sessionId: string; children?: ReactNode }) {
  return (
    <nav className="crumbs" aria-label="Place">
      <Link href="/s">Sessions</Link>
      <span className="sep">/</span>
      {children === undefined ? (
        <h1 className="clip" title={sessionId}>
          {sessionId}
        </h1>
      ) : (
        <Link className="clip" href={sessionAddress(sessionId)} title={sessionId}>
          {sessionId}
        </Link>
      )}
      {children !== undefined && <span className="sep">/</span>}
      {children}
    </nav>
  );
}
