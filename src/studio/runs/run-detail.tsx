import { formatInline, formatTime } from '../data/format.ts';
import type { Reply } from '../data/server.ts';
import { useReply } from '../data/use-reply.ts';
import { Status } from '../parts/status.tsx';
import { Loaded } from '../parts/trouble.tsx';

type Run = Reply<'GET /v1/sessions/{session}/run'>;

/** One run: the steps of a workflow, or the ledgers of a team, round by round. */
export function RunDetail({ sessionId }: { sessionId: string }) {
  const asked = useReply('GET /v1/sessions/{session}/run', { params: { session: sessionId } });
  return (
    <Loaded of={asked}>
      {(run) => (
        <>
          <div className="head">
            <h2 className="clip">{run.title}</h2>
            <span className="grow" />
            <Status status={run.status} />
          </div>
          {run.steps.length > 0 && <Steps steps={run.steps} />}
          {run.rounds.length > 0 && <Rounds rounds={run.rounds} />}
        </>
      )}
    </Loaded>
  );
}

function Steps({ steps }: { steps: Run['steps'] }) {
  return (
    <table className="table tight">
      <thead>
        <tr>
          <th style={{ width: 224 }}>Step</th>
          <th style={{ width: 112 }}>Status</th>
          <th className="num" style={{ width: 72 }}>
            Attempts
          </th>
          <th style={{ width: 112 }}>Ended</th>
          <th>Result</th>
        </tr>
      </thead>
      <tbody>
        {steps.map((step) => (
          <tr key={step.path}>
            <td className="mono">{step.path}</td>
            <td>
              <Status status={step.status} />
            </td>
            <td className="num">{step.attempts ?? ''}</td>
            <td className="mono t2">{step.endedAtMs === undefined ? '' : formatTime(step.endedAtMs)}</td>
            <td className={`clip ${step.error === undefined ? 't2' : 'danger'}`}>
              {step.error?.message ?? (step.output === undefined ? '' : formatInline(step.output))}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Rounds({ rounds }: { rounds: Run['rounds'] }) {
  return (
    <table className="table tight">
      <thead>
        <tr>
          <th className="num" style={{ width: 56 }}>
            Round
          </th>
          <th style={{ width: 112 }}>Phase</th>
          <th style={{ width: 128 }}>Next speaker</th>
          <th className="num" style={{ width: 56 }}>
            Stalls
          </th>
          <th>Ledger</th>
        </tr>
      </thead>
      <tbody>
        {rounds.map((round) => (
          <tr key={round.checkpointId}>
            <td className="num">{round.round}</td>
            <td>{round.phase}</td>
            <td>{round.speaker ?? ''}</td>
            <td className="num">{round.stalls}</td>
            <td className="clip t2" title={formatInline(round.progressLedger ?? round.taskLedger ?? '', 2_000)}>
              {Object.entries(round.progressLedger ?? {})
                .map(([question, { answer }]) => `${question}: ${formatInline(answer, 60)}`)
                .join(', ') || formatInline(round.taskLedger?.plan ?? '', 200)}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
