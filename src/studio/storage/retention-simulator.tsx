import { Fragment, useEffect, useState } from 'react';
import { formatBytes, formatCount, shortId } from '../data/format.ts';
import { ask, type Reply, replies } from '../data/server.ts';
import { CommandLine } from '../parts/command.tsx';
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

/** What rules of retention would delete, and why; nothing goes before somebody has seen the list. */
export function RetentionSimulator({ isReadOnly }: { isReadOnly: boolean }) {
  const [policy, setPolicy] = useState<Policy>({ keepLast: 10, keepDaily: 7 });
  const [preview, setPreview] = useState<Preview>();
  const [error, setError] = useState<Error>();
  const [isSure, setSure] = useState(false);
  useEffect(() => {
    setSure(false);
    const timer = setTimeout(
      () => void ask('POST /v1/retention/preview', { body: { policy } }).then(setPreview, setError),
      REST_MS,
    );
    return () => clearTimeout(timer);
  }, [policy]);
  const prune = async () => {
    if (!isSure) return setSure(true);
    await ask('POST /v1/prune', { body: { policy, expect: preview?.dropped ?? 0, collect: true } }).catch(setError);
    replies.refresh(() => true);
    return setPolicy({ ...policy });
  };
  return (
    <aside className="pane" aria-label="Retention simulator">
      <div className="head">
        <h2>Retention simulator</h2>
        <span className="grow" />
        <span className="t3">only tries it</span>
      </div>
      <div className="scroll grow">
        <div className="sect grid2">
          {RULES.map(([name, label]) => (
            <label
              key={name}
              style={{ display: 'flex', gap: 8, alignItems: 'center', justifyContent: 'space-between' }}
            >
              {label}
              <input
                className="input num"
                style={{ width: 72 }}
                type="number"
                min={0}
                value={policy[name] ?? ''}
                onChange={(event) => setPolicy(withRule(policy, name, event.target.value))}
              />
            </label>
          ))}
        </div>
        {error !== undefined && <Trouble error={error} />}
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
        <span className="t3 grow">
          {isReadOnly ? 'The server is read-only' : isSure ? 'Press again to delete them' : 'Asks before it deletes'}
        </span>
        <button
          type="button"
          className="btn bad"
          disabled={isReadOnly || (preview?.dropped ?? 0) === 0}
          onClick={prune}
        >
          <Icon name="trash" small />
          {isSure ? 'Delete' : 'Prune'} {formatCount(preview?.dropped ?? 0)}
          {isSure ? '' : '…'}
        </button>
      </div>
    </aside>
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
        <dl className="dl" style={{ gridTemplateColumns: '1fr auto' }}>
          {[false, true].map((isKept) => (
            <Fragment key={String(isKept)}>
              <dt className="medium" style={{ color: 'var(--text)' }}>
                Would {isKept ? 'stay' : 'go'}
              </dt>
              <dd className="num medium">{formatCount(isKept ? preview.kept : preview.dropped)}</dd>
              {preview.reasons
                .filter((each) => each.isKept === isKept)
                .toSorted((a, b) => b.checkpoints - a.checkpoints)
                .map(({ reason, checkpoints }) => (
                  <Reason key={reason} text={reason} count={checkpoints} />
                ))}
            </Fragment>
          ))}
        </dl>
      </div>
      {preview.largest.length > 0 && (
        <div className="sect">
          <h3>Largest that would go</h3>
          <dl className="dl" style={{ gridTemplateColumns: '1fr auto' }}>
            {preview.largest.slice(0, 8).map(({ checkpointId, sessionId, freedBytes }) => (
              <Reason
                key={checkpointId}
                text={`${sessionId} ${shortId(checkpointId)}`}
                count={formatBytes(freedBytes)}
              />
            ))}
          </dl>
        </div>
      )}
    </>
  );
}

function Reason({ text, count }: { text: string; count: number | string }) {
  return (
    <>
      <dt className="clip" style={{ paddingLeft: 12 }} title={text}>
        {text}
      </dt>
      <dd className="num t2">{typeof count === 'number' ? formatCount(count) : count}</dd>
    </>
  );
}
