import { formatAgo, formatBytes, formatCost, formatCount, formatShort } from '../data/format.ts';
import type { Reply } from '../data/server.ts';
import { useNow } from '../data/use-now.ts';
import { useReply, useReplyIf } from '../data/use-reply.ts';
import { Link } from '../frame/link.tsx';
import { sessionAddress } from '../frame/place.ts';
import { Spark } from '../parts/spark.tsx';
import { Integrity, Status } from '../parts/status.tsx';
import type { ListedSession } from './sessions-screen.tsx';

/** Longer histories are read for drift on their own page, when somebody asks. */
const UNASKED_CHECKPOINTS = 500;

/** One session. Its figures are asked for when it is on the screen. */
export function SessionRow({
  session,
  index,
  isSelected,
}: {
  session: ListedSession;
  index: number;
  isSelected: boolean;
}) {
  const { id, status, branches, savedAt, headId } = session;
  const figures = useReply('GET /v1/sessions/{session}/figures', { params: { session: id } }).value;
  const isShort = figures !== undefined && figures.checkpoints <= UNASKED_CHECKPOINTS;
  const drift = useReplyIf(
    'GET /v1/checkpoints/{checkpoint}/drift',
    isShort && headId !== undefined ? { params: { checkpoint: headId } } : undefined,
  ).value;
  return (
    <tr aria-selected={isSelected} aria-rowindex={index + 1} className={isSelected ? 'is-focus' : ''}>
      <td>
        <Link className="medium" style={{ color: 'inherit' }} href={sessionAddress(id)} title={id}>
          {id}
        </Link>
      </td>
      <td>
        <Status status={drift?.status === 'drifting' && status === 'running' ? 'drifting' : status} />
      </td>
      <td className="num">{branches.length}</td>
      <td className="num">{figures === undefined ? '' : formatCount(figures.checkpoints)}</td>
      <td className="t2" title={new Date(savedAt).toLocaleString()}>
        <Ago timeMs={Date.parse(savedAt)} />
      </td>
      <Used figures={figures} />
      <td style={{ textOverflow: 'clip' }}>
        {drift !== undefined && drift.points.length > 1 && <Spark values={drift.points.map(worst)} mark={1} />}
      </td>
      <td>{figures && <Integrity damaged={figures.damaged} />}</td>
    </tr>
  );
}

/** What it used: models, tokens, money, bytes. */
function Used({ figures }: { figures: Reply<'GET /v1/sessions/{session}/figures'> | undefined }) {
  const { models = [], totals } = figures?.usage ?? {};
  return (
    <>
      <td className="t2 clip">{models.join(', ')}</td>
      <td className="num">{totals && formatShort(totals.inputTokens + totals.outputTokens)}</td>
      <td className="num">{totals !== undefined && totals.costUsd > 0 && formatCost(totals.costUsd)}</td>
      <td className="num">
        {figures && (
          <>
            {formatBytes(figures.uniqueBytes)} <span className="t3">/ {formatBytes(figures.logicalBytes)}</span>
          </>
        )}
      </td>
    </>
  );
}

function worst({ scores }: { readonly scores: Readonly<Record<string, number>> }): number {
  return Math.max(0, ...Object.values(scores));
}

function Ago({ timeMs }: { timeMs: number }) {
  return formatAgo(timeMs, useNow());
}
