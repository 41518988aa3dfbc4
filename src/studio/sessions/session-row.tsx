import { useReply, useReplyIf } from '../data/use-reply.ts';
import type { COLUMNS, ListedSession } from './columns.tsx';
import { UNASKED_CHECKPOINTS } from './use-sorted.ts';

type RowProps = {
  session: ListedSession;
  index: number;
  columns: typeof COLUMNS;
  isFocused: boolean;
  isPicked: boolean;
  onPick: (id: string) => void;
};

/** One session. Its figures are asked for when it is on the screen. */
export function SessionRow({ session, index, columns, isFocused, isPicked, onPick }: RowProps) {
  const { id, headId } = session;
  const figures = useReply('GET /v1/sessions/{session}/figures', { params: { session: id } }).value;
  const isShort = session.sequence <= UNASKED_CHECKPOINTS;
  const drift = useReplyIf(
    'GET /v1/checkpoints/{checkpoint}/drift',
    isShort && headId !== undefined ? { params: { checkpoint: headId } } : undefined,
  ).value;
  return (
    <tr aria-selected={isPicked} aria-rowindex={index + 2} className={isFocused ? 'is-focus' : ''}>
      <td className="pick">
        <input type="checkbox" aria-label={`Select ${id}`} checked={isPicked} onChange={() => onPick(id)} />
      </td>
      {columns.map((column) => (
        <td key={column.id} className={column.isNumber ? 'num' : ''}>
          {column.cell({ session, figures, drift })}
        </td>
      ))}
    </tr>
  );
}
