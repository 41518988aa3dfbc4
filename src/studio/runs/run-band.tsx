import { Icon } from '../parts/icon.tsx';
import { Trouble } from '../parts/trouble.tsx';
import { Answered, RequestForm } from './requests.tsx';
import { isAnswered, type RunView } from './use-run.ts';

/** What a run waits for or failed with, above the session; nothing most of the time. */
export function RunBand({ view }: { view: RunView }) {
  const { run, team, isRunning, error, start } = view;
  const asked = (run?.asks ?? []).filter(({ answer }) => answer === undefined);
  const failed = run?.active?.status === 'failed' ? run.active.problem : undefined;
  return (
    <>
      {error !== undefined && <Trouble error={error} />}
      {failed !== undefined && (
        <div role="alert" className="note danger band">
          <Icon name="fail" small />
          <p>The run failed: {failed}</p>
        </div>
      )}
      {run !== undefined && isAnswered(run) && !isRunning && <Answered sessionId={run.sessionId} />}
      {asked.map((request) => (
        <RequestForm
          key={request.id}
          request={request}
          isInSession
          onAnswered={() => void (team !== undefined && !isRunning && start({}))}
        />
      ))}
    </>
  );
}
