import { formatCount, formatDuration } from '../data/format.ts';
import { useReply } from '../data/use-reply.ts';
import type { Look } from '../look/look.ts';
import { Loaded } from '../parts/trouble.tsx';

/** The recorded calls that the selected checkpoint brought. */
export function EffectsTab({ id }: Look & { id: string }) {
  const asked = useReply('GET /v1/checkpoints/{checkpoint}/effects', { params: { checkpoint: id } });
  return (
    <div className="scroll grow">
      <Loaded of={asked}>
        {({ items }) =>
          items.length === 0 ? (
            <p className="empty">No call was recorded between the parent and this checkpoint.</p>
          ) : (
            <table className="table">
              <thead>
                <tr>
                  <th>Call</th>
                  <th style={{ width: 88 }}>Result</th>
                  <th style={{ width: 104 }}>From</th>
                  <th className="num" style={{ width: 88 }}>
                    Took
                  </th>
                  <th className="num" style={{ width: 104 }}>
                    Tokens
                  </th>
                  <th className="num" style={{ width: 72 }}>
                    Attempt
                  </th>
                </tr>
              </thead>
              <tbody>
                {items.map((effect) => (
                  <tr key={`${effect.branch} ${effect.ordinal}`}>
                    <td className="mono" title={effect.idempotencyKey}>
                      {effect.name}
                    </td>
                    <td className={effect.status === 'failed' ? 'danger' : ''}>{effect.status}</td>
                    <td className="t2">{effect.replayedFrom === undefined ? 'live' : 'recorded'}</td>
                    <td className="num">{effect.durationMs === undefined ? '' : formatDuration(effect.durationMs)}</td>
                    <td className="num">{tokensOf(effect)}</td>
                    <td className="num">{effect.attempt}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          )
        }
      </Loaded>
    </div>
  );
}

function tokensOf({
  inputTokens,
  outputTokens,
}: {
  inputTokens?: number | undefined;
  outputTokens?: number | undefined;
}): string {
  return inputTokens === undefined && outputTokens === undefined
    ? ''
    : formatCount((inputTokens ?? 0) + (outputTokens ?? 0));
}
