import { Fragment, useEffect, useState } from 'react';
import { countOf, formatBytes, formatCount, formatDate } from '../data/format.ts';
import { ask, type Reply, replies } from '../data/server.ts';
import { Link } from '../frame/link.tsx';
import { sessionAddress } from '../frame/place.ts';
import { CommandLine } from '../parts/command.tsx';
import { Dialog } from '../parts/dialog.tsx';
import { Icon } from '../parts/icon.tsx';
import { Trouble } from '../parts/trouble.tsx';

const RULES = [
  ['keepLast', 'Keep last', '--keep-last'],
  ['keepHourly', 'Hourly', '--keep-hourly'],
  ['keepDaily', 'Daily', '--keep-daily'],
  ['keepWeekly', 'Weekly', '--keep-weekly'],
] as const;
type Rule = (typeof RULES)[number][0];
type Policy = Partial<Record<Rule, number>>;
type Preview = Reply<'POST /v1/retention/preview'>;

const REST_MS = 300;

/** What rules of retention would delete, and why; nothing goes before somebody has seen the list, and what went stays in sight. */
export function RetentionSimulator({ isReadOnly }: { isReadOnly: boolean }) {
  const [policy, setPolicy] = useState<Policy>({ keepLast: 10, keepDaily: 7 });
  const [preview, setPreview] = useState<Preview>();
  const [error, setError] = useState<Error>();
  const [isAsking, setAsking] = useState(false);
  const [gone, setGone] = useState<Gone>();
  useEffect(() => {
    const timer = setTimeout(
      () => void ask('POST /v1/retention/preview', { body: { policy } }).then(setPreview, setError),
      REST_MS,
    );
    return () => clearTimeout(timer);
  }, [policy]);
  const prune = async ({ dropped, going }: Preview) => {
    setAsking(false);
    setError(undefined);
    try {
      const { deleted, freedBytes = 0 } = await ask('POST /v1/prune', {
        body: { policy, expect: dropped, collect: true },
      });
      setGone({ count: deleted.length, freedBytes, going });
    } catch (problem) {
      setError(problem as Error);
    }
    replies.refresh(() => true);
    setPolicy({ ...policy });
  };
  return (
    <aside className="pane" aria-label="Retention simulator">
      <div className="head">
        <h2>Retention simulator</h2>
        <span className="grow" />
        <span className="t3">nothing is deleted here</span>
      </div>
      <div className="scroll grow">
        <Rules policy={policy} onPolicy={setPolicy} />
        {error !== undefined && <Trouble error={error} />}
        {gone !== undefined && <Went gone={gone} />}
        {preview !== undefined && <Verdicts preview={preview} />}
        <div className="sect" style={{ border: 0 }}>
          <CommandLine
            command={`savestate prune ${RULES.filter(([name]) => policy[name] !== undefined)
              .map(([name, , flag]) => `${flag} ${policy[name]}`)
              .join(' ')} --dry-run`}
          />
        </div>
      </div>
      <div className="foot">
        <span className="t3 grow">{isReadOnly ? 'The server is read-only' : 'Shows the list before it deletes'}</span>
        <button
          type="button"
          className="btn bad"
          disabled={isReadOnly || (preview?.dropped ?? 0) === 0}
          onClick={() => setAsking(true)}
        >
          <Icon name="trash" small />
          Prune {formatCount(preview?.dropped ?? 0)}…
        </button>
      </div>
      {isAsking && preview !== undefined && (
        <Confirm preview={preview} onDelete={() => void prune(preview)} onClose={() => setAsking(false)} />
      )}
    </aside>
  );
}

function Rules({ policy, onPolicy }: { policy: Policy; onPolicy: (policy: Policy) => void }) {
  return (
    <div className="sect grid2">
      {RULES.map(([name, label]) => (
        <label key={name} style={{ display: 'flex', gap: 8, alignItems: 'center', justifyContent: 'space-between' }}>
          {label}
          <input
            className="input num"
            style={{ width: 72 }}
            type="number"
            min={0}
            value={policy[name] ?? ''}
            onChange={(event) => onPolicy(withRule(policy, name, event.target.value))}
          />
        </label>
      ))}
      <p className="t2">Always kept: branch heads, tags, pins, and what still runs or waits.</p>
    </div>
  );
}

type Gone = { readonly count: number; readonly freedBytes: number; readonly going: Preview['going'] };

/** Asks in another place than the button that was pressed, so that a double click deletes nothing. */
function Confirm({ preview, onDelete, onClose }: { preview: Preview; onDelete: () => void; onClose: () => void }) {
  const { dropped, freedBytes, going } = preview;
  return (
    <Dialog title={`Delete ${countOf(dropped, 'checkpoint')}?`} onClose={onClose}>
      <div className="sect">
        <p className="t2">
          {formatBytes(freedBytes)} would be freed. What is deleted cannot be brought back.
          {going.length < dropped && ` The oldest ${formatCount(going.length)}:`}
        </p>
        <Going going={going} label="What would be deleted" />
      </div>
      <div className="foot start">
        <button type="button" className="btn bad" onClick={onDelete}>
          <Icon name="trash" small />
          Delete {formatCount(dropped)}
        </button>
        <button type="button" className="btn quiet" onClick={onClose}>
          Cancel
        </button>
      </div>
    </Dialog>
  );
}

/** What was deleted. */
function Went({ gone }: { gone: Gone }) {
  return (
    <details className="sect">
      <summary>
        <span role="status">
          Deleted {countOf(gone.count, 'checkpoint')}, {formatBytes(gone.freedBytes)} freed
        </span>
      </summary>
      <Going going={gone.going} label="What was deleted" />
    </details>
  );
}

function Going({ going, label }: { going: Preview['going']; label: string }) {
  return (
    <ul className="dry-run tall" aria-label={label}>
      {going.map(({ id, sessionId, branch, sequence, savedAt, reason }) => (
        <li key={id} title={`${id}: ${reason}`}>
          <span className="clip medium grow">{sessionId}</span>
          <span className="clip t2">
            {branch} #{sequence}
          </span>
          <span className="t3 num">{formatDate(Date.parse(savedAt))}</span>
        </li>
      ))}
    </ul>
  );
}

function withRule(policy: Policy, name: Rule, text: string): Policy {
  const { [name]: _, ...others } = policy;
  const value = Number(text);
  return text === '' || !Number.isInteger(value) || value < 0 ? others : { ...others, [name]: value };
}

function Verdicts({ preview }: { preview: Preview }) {
  return (
    <>
      <div className="sect">
        <p style={{ display: 'flex', gap: 8, alignItems: 'baseline', marginBottom: 8 }}>
          <b style={{ font: 'var(--w-strong) var(--fs-5)/var(--lh-5) var(--font-ui)' }}>
            {formatBytes(preview.freedBytes)}
          </b>{' '}
          would be freed
        </p>
        <Buckets buckets={preview.buckets} />
        <dl className="dl verdicts">
          {[false, true].map((isKept) => (
            <Fragment key={String(isKept)}>
              <dt className="medium">
                <i className={isKept ? 'stays' : 'goes'} />
                Would {isKept ? 'stay' : 'go'}
              </dt>
              <dd className="num medium">{formatCount(isKept ? preview.kept : preview.dropped)}</dd>
              {preview.reasons
                .filter((each) => each.isKept === isKept)
                .toSorted((a, b) => b.checkpoints - a.checkpoints)
                .map(({ reason, checkpoints }) => (
                  <Fragment key={reason}>
                    <dt className="clip sub" title={reason}>
                      {reason}
                    </dt>
                    <dd className="num t2">{formatCount(checkpoints)}</dd>
                  </Fragment>
                ))}
            </Fragment>
          ))}
        </dl>
      </div>
      {preview.sessions.length > 0 && <Losers sessions={preview.sessions} />}
    </>
  );
}

/** What goes and what stays, by when it was saved: of bytes, each counted once. */
function Buckets({ buckets }: { buckets: Preview['buckets'] }) {
  const most = Math.max(1, ...buckets.map(({ keptBytes, freedBytes }) => keptBytes + freedBytes));
  const share = (bytes: number) => `${(bytes / most) * 100}%`;
  return (
    <div className="buckets" role="img" aria-label="What would go and what would stay, from the oldest to the newest">
      {buckets.map(({ until, keptBytes, freedBytes }) => (
        <span
          key={until}
          title={`until ${new Date(until).toLocaleString()}: ${formatBytes(freedBytes)} would go, ${formatBytes(keptBytes)} stay`}
        >
          <i className="goes" style={{ height: share(freedBytes) }} />
          <i className="stays" style={{ height: share(keptBytes) }} />
        </span>
      ))}
    </div>
  );
}

const SHOWN_SESSIONS = 8;

function Losers({ sessions }: { sessions: Preview['sessions'] }) {
  return (
    <div className="sect">
      <h3>Largest that would go</h3>
      <dl className="dl losers">
        {sessions.slice(0, SHOWN_SESSIONS).map(({ id, checkpoints, freedBytes }) => (
          <Fragment key={id}>
            <dt className="clip" title={id}>
              <Link href={sessionAddress(id)}>{id}</Link>
            </dt>
            <dd className="num t2">{formatCount(checkpoints)}</dd>
            <dd className="num">{formatBytes(freedBytes)}</dd>
          </Fragment>
        ))}
      </dl>
    </div>
  );
}
