import { formatAgo } from '../data/format.ts';
import { useNow } from '../data/use-now.ts';
import { useReply } from '../data/use-reply.ts';
import { Link } from '../frame/link.tsx';
import { sessionAddress, setQuery } from '../frame/place.ts';
import { Status } from '../parts/status.tsx';
import { Loaded } from '../parts/trouble.tsx';
import { Requests } from './requests.tsx';
import { RunDetail } from './run-detail.tsx';
import { isAnswered } from './use-run.ts';

const KINDS: Readonly<Record<string, string>> = { workflow_run: 'Workflow', fleet: 'Fleet', group_chat: 'Group chat' };

/** Runs of workflows and teams, and what people are asked. */
export function RunsScreen({ query }: { query: URLSearchParams }) {
  const runs = useReply('GET /v1/runs');
  const chosen = query.get('session') ?? runs.value?.items[0]?.sessionId;
  const nowMs = useNow();
  return (
    <>
      <header className="topbar">
        <h1>Runs</h1>
      </header>
      <div className="figures">
        <section className="pane" aria-label="Runs">
          <Loaded of={runs}>
            {({ items }) => (
              <div className="scroll grow">
                {items.length === 0 && (
                  <p className="empty">No workflow, fleet or group chat has run on this storage.</p>
                )}
                {items.length > 0 && (
                  <table className="table">
                    <thead>
                      <tr>
                        <th>Run</th>
                        <th style={{ width: 96 }}>Kind</th>
                        <th style={{ width: 128 }}>Status</th>
                        <th style={{ width: 96 }}>Activity</th>
                        <th className="num" style={{ width: 72 }}>
                          Asked
                        </th>
                      </tr>
                    </thead>
                    <tbody>
                      {items.map((run) => (
                        <tr
                          key={`${run.sessionId} ${run.branch}`}
                          aria-selected={run.sessionId === chosen}
                          onPointerDown={() => setQuery({ session: run.sessionId }, { replace: true })}
                        >
                          <td className="clip" title={run.title}>
                            <Link href={sessionAddress(run.sessionId)}>{run.sessionId}</Link>{' '}
                            <span className="t3">{run.title}</span>
                          </td>
                          <td className="t2">{KINDS[run.kind]}</td>
                          <td>
                            <Status status={isAnswered(run) ? 'answered' : run.status} />
                          </td>
                          <td className="t2">{formatAgo(Date.parse(run.savedAt), nowMs)}</td>
                          <td className="num">{run.requests || ''}</td>
                        </tr>
                      ))}
                    </tbody>
                  </table>
                )}
                {chosen !== undefined && <RunDetail sessionId={chosen} />}
              </div>
            )}
          </Loaded>
        </section>
        <Requests />
      </div>
    </>
  );
}
