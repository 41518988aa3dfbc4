import { formatDate, formatInline, formatTime, quoteArgument, visible } from '../data/format.ts';
import type { Reply } from '../data/server.ts';
import { useReply } from '../data/use-reply.ts';
import { CopyCommand } from '../parts/command.tsx';
import { Status } from '../parts/status.tsx';
import { Loaded } from '../parts/trouble.tsx';
import { Answered } from './requests.tsx';
import { isAnswered } from './use-run.ts';

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
            <Status status={isAnswered(run) ? 'answered' : run.status} />
            <CopyCommand command={`savestate show @ --session ${quoteArgument(sessionId)}`} />
          </div>
          {isAnswered(run) && <Answered sessionId={sessionId} />}
          {run.steps.length > 0 && <Steps steps={run.steps} />}
          <TaskLedger ledger={run.rounds.at(-1)?.taskLedger ?? null} />
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
          <th style={{ width: 168 }}>Time</th>
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
            <td className="mono t2">{timeOf(step)}</td>
            <td className={`clip ${step.error === undefined ? 't2' : 'danger'}`}>
              {step.error?.message ?? (step.output === undefined ? '' : formatInline(step.output))}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** When a step ended, or is due. */
function timeOf({ endedAtMs, dueAtMs }: Run['steps'][number]): string {
  if (endedAtMs !== undefined) return formatTime(endedAtMs);
  return dueAtMs === undefined ? '' : `due ${formatDate(dueAtMs)}`;
}

/** What the team knows, and what it is up to. */
function TaskLedger({ ledger }: { ledger: Run['rounds'][number]['taskLedger'] }) {
  if (ledger === null) return null;
  return (
    <dl className="sect dl" style={{ gridTemplateColumns: '80px 1fr' }}>
      <dt>Facts</dt>
      <dd style={{ whiteSpace: 'pre-wrap' }}>{visible(ledger.facts)}</dd>
      <dt>Plan</dt>
      <dd style={{ whiteSpace: 'pre-wrap' }}>{visible(ledger.plan)}</dd>
    </dl>
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
