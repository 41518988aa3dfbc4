import type { ReactNode } from 'react';
import { formatAgo, formatBytes, formatCost, formatCount, formatShort } from '../data/format.ts';
import type { Reply } from '../data/server.ts';
import { useNow } from '../data/use-now.ts';
import { Link } from '../frame/link.tsx';
import { sessionAddress } from '../frame/place.ts';
import { Spark } from '../parts/spark.tsx';
import { Integrity, lookOf, Status } from '../parts/status.tsx';

/** A session as the list has it. */
export type ListedSession = Reply<'GET /v1/sessions'>['items'][number];
/** What a session takes and used. */
export type Figures = Reply<'GET /v1/sessions/{session}/figures'>;

/** What a row is made of; figures and drift come when the row is on the screen. */
export type SessionFacts = {
  readonly session: ListedSession;
  readonly figures: Figures | undefined;
  readonly drift: Reply<'GET /v1/checkpoints/{checkpoint}/drift'> | undefined;
};

type Column = {
  readonly id: string;
  readonly name: string;
  readonly width: string;
  readonly isNumber?: true;
  /** What rows are sorted by; absent: they are not. */
  readonly rank?: (session: ListedSession) => string | number;
  /** The same where it takes the figures of every session. */
  readonly measure?: (figures: Figures) => number;
  readonly cell: (facts: SessionFacts) => ReactNode;
};

/** The columns of the list, in their order; the first is always shown. */
export const COLUMNS: readonly Column[] = [
  {
    id: 'name',
    name: 'Name',
    width: 'auto',
    rank: ({ id }) => id,
    cell: ({ session: { id } }) => (
      <Link className="medium plain" href={sessionAddress(id)} title={id}>
        {id}
      </Link>
    ),
  },
  {
    id: 'status',
    name: 'Status',
    width: '104px',
    rank: ({ status }) => lookOf(status).word,
    cell: ({ session: { status }, drift }) => (
      <Status status={drift?.status === 'drifting' && status === 'running' ? 'drifting' : status} />
    ),
  },
  {
    id: 'branches',
    name: 'Branches',
    width: '76px',
    isNumber: true,
    rank: ({ branches }) => branches.length,
    cell: ({ session: { branches } }) => branches.length,
  },
  {
    id: 'checkpoints',
    name: 'Checkpoints',
    width: '92px',
    isNumber: true,
    measure: ({ checkpoints }) => checkpoints,
    cell: ({ figures }) => figures && formatCount(figures.checkpoints),
  },
  {
    id: 'activity',
    name: 'Activity',
    width: '92px',
    rank: ({ savedAt }) => Date.parse(savedAt),
    cell: ({ session: { savedAt } }) => <Ago time={savedAt} />,
  },
  {
    id: 'model',
    name: 'Model',
    width: '120px',
    cell: ({ figures }) => <span className="t2">{figures?.usage.models.join(', ')}</span>,
  },
  {
    id: 'tokens',
    name: 'Tokens',
    width: '68px',
    isNumber: true,
    measure: tokensOf,
    cell: ({ figures }) => figures?.usage.totals && formatShort(tokensOf(figures)),
  },
  {
    id: 'cost',
    name: 'Cost',
    width: '60px',
    isNumber: true,
    measure: costOf,
    cell: ({ figures }) => figures && costOf(figures) > 0 && formatCost(costOf(figures)),
  },
  {
    id: 'size',
    name: 'Unique / logical',
    width: '136px',
    isNumber: true,
    measure: ({ uniqueBytes }) => uniqueBytes,
    cell: ({ figures }) =>
      figures && (
        <>
          {formatBytes(figures.uniqueBytes)} <span className="t3">/ {formatBytes(figures.logicalBytes)}</span>
        </>
      ),
  },
  {
    id: 'drift',
    name: 'Drift',
    width: '112px',
    cell: ({ drift }) =>
      drift !== undefined && drift.points.length > 1 && <Spark values={drift.points.map(worst)} mark={1} />,
  },
  {
    id: 'integrity',
    name: 'Integrity',
    width: '128px',
    measure: ({ damaged }) => damaged,
    cell: ({ figures }) => figures && <Integrity damaged={figures.damaged} />,
  },
];

function tokensOf({ usage: { totals } }: Figures): number {
  return (totals?.inputTokens ?? 0) + (totals?.outputTokens ?? 0);
}

function costOf({ usage: { totals } }: Figures): number {
  return totals?.costUsd ?? 0;
}

function worst({ scores }: { readonly scores: Readonly<Record<string, number>> }): number {
  return Math.max(0, ...Object.values(scores));
}

function Ago({ time }: { time: string }) {
  return (
    <span className="t2" title={new Date(time).toLocaleString()}>
      {formatAgo(Date.parse(time), useNow())}
    </span>
  );
}
