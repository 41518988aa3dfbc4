import { memo, useState } from 'react';
import { countOf, formatBytes, quoteArgument } from '../data/format.ts';
import { ask, newKey } from '../data/server.ts';
import type { Timeline } from '../data/timeline.ts';
import { useReply } from '../data/use-reply.ts';
import { go, sessionAddress } from '../frame/place.ts';
import { CommandLine } from '../parts/command.tsx';
import { Icon } from '../parts/icon.tsx';
import { Trouble } from '../parts/trouble.tsx';
import { ModeChoice } from '../runs/run-menu.tsx';
import { type Mode, useRun } from '../runs/use-run.ts';
import { type Draft, type Edit, isEdited } from './use-draft.ts';
import { bodyOf, type Preview, useNameProblem } from './use-preview.ts';

type FormProps = {
  sessionId: string;
  id: string;
  kind: string;
  draft: Draft;
  preview: Preview;
  timeline: Timeline;
  /** The timeline grows in place: this tells that it did. */
  version: number;
  at: number;
};

/** Name, reason, what would be called again, and the one button that does it. */
export const ForkForm = memo(function ForkForm(props: FormProps) {
  const { sessionId, id, kind, draft, preview, timeline, at } = props;
  const { edit } = draft;
  const [branch, setBranch] = useState('');
  const [reason, setReason] = useState('');
  const [error, setError] = useState<Error>();
  const [rounds, setRounds] = useState(5);
  const [mode, setMode] = useState<Mode>('recorded');
  const run = useRun(sessionId, kind);
  const nameProblem = useNameProblem(id, branch, timeline);
  const isReadOnly = useReply('GET /v1/server').value?.isReadOnly === true;
  const isMended = edit.problem === undefined && preview.reply?.isValid !== false;
  const obstacle = findObstacle({ isReadOnly, isMended, hasName: nameProblem === undefined });
  const isValid = obstacle === undefined;
  const fork = async (isRun: boolean) => {
    setError(undefined);
    try {
      const made = await ask('POST /v1/checkpoints/{checkpoint}/fork', {
        params: { checkpoint: id },
        body: {
          ...bodyOf(draft.read()), // with every letter
          ...(branch !== '' && { branch }),
          ...(reason !== '' && { reason }),
          ...(isRun && { switch: true }),
        },
        idempotencyKey: newKey(),
      });
      if (isRun && !(await run.start(mode === 'live' ? { rounds } : { at: made.headId, rounds, mode }))) return;
      draft.change(() => ({}));
      go(sessionAddress(sessionId, { branch: made.branch }));
    } catch (problem) {
      setError(problem as Error);
    }
  };
  return (
    <aside className="pane" aria-label="The fork">
      <div className="scroll grow">
        <Names branch={branch} reason={reason} problem={nameProblem} onBranch={setBranch} onReason={setReason} />
        {run.team !== undefined && (
          <div className="sect">
            <h3>How to run</h3>
            <ModeChoice rounds={rounds} mode={mode} onRounds={setRounds} onMode={setMode} />
          </div>
        )}
        <LaterCalls preview={preview} from={`${timeline.branchOf(at)} #${timeline.sequences[at]}`} />
        <Cost steps={timeline.sequences[at] ?? 0} newBytes={preview.reply?.newBytes ?? 0} />
        <Commands fork={forkCommand({ sessionId, id, branch, reason, edit })} sessionId={sessionId} branch={branch} />
        {error !== undefined && <Trouble error={error} />}
        {run.error !== undefined && <Trouble error={run.error} />}
      </div>
      <div className="foot">
        <span className="t3">{obstacle}</span>
        <button
          type="button"
          className={`btn ${run.team === undefined ? 'primary' : ''}`}
          disabled={!isValid}
          onClick={() => void fork(false)}
        >
          <Icon name="fork" small />
          {wordsOf(edit)}
        </button>
        {run.team !== undefined && (
          <button
            type="button"
            className="btn primary"
            disabled={!isValid || !(rounds >= 1)}
            onClick={() => void fork(true)}
          >
            <Icon name="play" small />
            Fork and run {rounds} rounds
          </button>
        )}
      </div>
    </aside>
  );
});

/** Why it cannot be forked now. */
function findObstacle(form: { isReadOnly: boolean; isMended: boolean; hasName: boolean }): string | undefined {
  if (form.isReadOnly) return 'The server is read-only';
  if (!form.hasName) return 'Choose another name first';
  return form.isMended ? undefined : 'Mend the edit first';
}

function wordsOf(edit: Edit): string {
  return isEdited(edit) ? 'Fork with the edit' : 'Fork';
}

type NamesProps = {
  branch: string;
  reason: string;
  problem: string | undefined;
  onBranch: (name: string) => void;
  onReason: (reason: string) => void;
};

function Names({ branch, reason, problem, onBranch, onReason }: NamesProps) {
  return (
    <div className="sect" style={{ display: 'grid', gap: 12 }}>
      <label className="field">
        <span>Branch</span>
        <input
          className="input mono"
          value={branch}
          placeholder="a name is chosen"
          aria-invalid={problem !== undefined}
          onChange={(event) => onBranch(event.target.value)}
        />
        {problem !== undefined && <span className="danger">{problem}</span>}
      </label>
      <label className="field">
        <span>Reason, kept with the fork</span>
        <input className="input" value={reason} onChange={(event) => onReason(event.target.value)} />
      </label>
    </div>
  );
}

function Cost({ steps, newBytes }: { steps: number; newBytes: number }) {
  return (
    <div className="sect">
      <dl className="dl" style={{ gridTemplateColumns: '136px 1fr' }}>
        <dt>Shared</dt>
        <dd>{countOf(steps, 'step')}, not run and not stored again</dd>
        <dt>New on disk</dt>
        <dd>{newBytes === 0 ? 'nothing but a name' : `about ${formatBytes(newBytes)}`}</dd>
      </dl>
    </div>
  );
}

function Commands({ fork, sessionId, branch }: { fork: string; sessionId: string; branch: string }) {
  const name = quoteArgument(branch === '' ? '<branch>' : branch);
  return (
    <div className="sect" style={{ border: 0, display: 'grid', gap: 8 }}>
      <h3>Commands that do the same, and go on</h3>
      <CommandLine command={fork} />
      <CommandLine command={`savestate resume ${name} --session ${quoteArgument(sessionId)} -n 5`} />
    </div>
  );
}

function LaterCalls({ preview, from }: { preview: Preview; from: string }) {
  const calls = preview.reply?.laterCalls ?? [];
  if (calls.length === 0) return null;
  return (
    <div className="sect">
      <h3>
        Outside calls that would repeat <span className="chip warn">{calls.length}</span>
      </h3>
      <p className="t2">
        They were made after {from}. A run in the mode "recorded" uses their results until it differs.
      </p>
      <ul className="effects">
        {calls.map(({ name, calls: times }) => (
          <li key={name}>
            <Icon name="effect" small className="warn" />
            <span className="mono grow clip">{name}</span>
            {times > 1 && <span className="t3">×{times}</span>}
          </li>
        ))}
      </ul>
    </div>
  );
}

function forkCommand({
  sessionId,
  id,
  branch,
  reason,
  edit,
}: {
  sessionId: string;
  id: string;
  branch: string;
  reason: string;
  edit: Edit;
}): string {
  const sets = Object.entries(edit.set ?? {}).map(
    ([path, text]) => ` --set ${quoteArgument(`${path}=${JSON.stringify(text)}`)}`,
  );
  return [
    `savestate fork ${id} --session ${quoteArgument(sessionId)}`,
    branch === '' ? '' : ` -b ${quoteArgument(branch)}`,
    ...sets,
    edit.state === undefined ? '' : ' --patch patch.json',
    reason === '' ? '' : ` --reason ${quoteArgument(reason)}`,
  ].join('');
}
