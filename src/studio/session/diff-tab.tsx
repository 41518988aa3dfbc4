import { useState } from 'react';
import { shortId } from '../data/format.ts';
import type { Reply } from '../data/server.ts';
import { useReply, useReplyIf } from '../data/use-reply.ts';
import { setQuery } from '../frame/place.ts';
import { Icon } from '../parts/icon.tsx';
import { Loaded } from '../parts/trouble.tsx';
import type { Shared } from './session-screen.tsx';

type Diff = Reply<'GET /v1/diff'>;

/** What changed since the parent, or since any other checkpoint. */
export function DiffTab({ view, selection, id }: Shared & { id: string }) {
  const { timeline } = view;
  const other = timeline.ids[selection.second];
  const asked = useReply('GET /v1/diff', {
    query: { after: id, ...(other !== undefined && other !== id && { before: other }) },
  });
  const isRoot = other === undefined && (timeline.parents[selection.at] ?? -1) < 0;
  if (isRoot)
    return (
      <p className="empty">
        This is the first checkpoint: there is nothing before it. Ctrl-click another row to compare.
      </p>
    );
  return (
    <div className="scroll grow">
      <Loaded of={asked}>
        {(diff) => (
          <>
            <div className="subbar">
              <span className="t2">
                Since #{diff.before.sequence} of {diff.before.branch}{' '}
                <span className="mono t3">{shortId(diff.before.id)}</span>
              </span>
              <Counts diff={diff} />
              <span className="grow" />
              {other !== undefined && (
                <button
                  type="button"
                  className="btn sm quiet"
                  onClick={() => setQuery({ vs: undefined }, { replace: true })}
                >
                  Compare with the parent
                </button>
              )}
            </div>
            <Changes diff={diff} />
          </>
        )}
      </Loaded>
    </div>
  );
}

function Counts({ diff }: { diff: Diff }) {
  const { added, removed, modified, moved } = diff.counts.total;
  return (
    <span className="pm">
      <span className="ok">+{added}</span>
      <span className="danger">−{removed}</span>
      <span className="t2">±{modified}</span>
      {moved > 0 && <span className="t2">{moved} moved</span>}
    </span>
  );
}

function Changes({ diff }: { diff: Diff }) {
  const [showsAll, setShowsAll] = useState(false);
  const folded = new Set(diff.folded);
  const shown = <Change extends { readonly path: string }>(changes: readonly Change[]) =>
    changes.filter(({ path }) => showsAll || !folded.has(path));
  if (!diff.hasChanges) return <p className="empty">The two states are equal.</p>;
  return (
    <>
      {shown(diff.added).map((change) => (
        <ChangeBox key={`+${change.path}`} sign="+" tone="ok" path={change.path} after={change.newValue} />
      ))}
      {shown(diff.modified).map((change) => (
        <ModifiedBox key={`±${change.path}`} diff={diff} change={change} />
      ))}
      {shown(diff.removed).map((change) => (
        <ChangeBox key={`-${change.path}`} sign="−" tone="danger" path={change.path} before={change.oldValue} />
      ))}
      {shown(diff.moved).map(({ from, path }) => (
        <div className="change" key={`>${path}`}>
          <header>
            <Icon name="swap" small />
            <span className="mono clip">{from}</span>
            <span className="t3">moved to</span>
            <span className="mono clip">{path}</span>
          </header>
        </div>
      ))}
      {folded.size > 0 && (
        <button type="button" className="btn sm quiet" style={{ margin: 16 }} onClick={() => setShowsAll(!showsAll)}>
          {showsAll ? 'Hide' : 'Show'} {folded.size} changes that only the program needs: copies, counters
        </button>
      )}
    </>
  );
}

type BoxProps = { sign: string; tone: string; path: string; before?: unknown; after?: unknown };

function ChangeBox({ sign, tone, path, before, after }: BoxProps) {
  return (
    <div className="change">
      <header>
        <b className={tone}>{sign}</b>
        <span className="mono clip grow" title={path}>
          {path}
        </span>
      </header>
      <div className="sides is-one">
        {before !== undefined && <pre className="is-old">{printed(before)}</pre>}
        {after !== undefined && <pre className="is-new">{printed(after)}</pre>}
      </div>
    </div>
  );
}

/** A value that changed: of texts word by word, of anything else both beside each other. */
function ModifiedBox({ diff, change }: { diff: Diff; change: Diff['modified'][number] }) {
  const isText = typeof change.oldValue === 'string' && typeof change.newValue === 'string' && change.isCut !== true;
  const query = { before: diff.before.id, after: diff.after.id, path: change.path };
  const words = useReplyIf('GET /v1/text-diff', isText ? { query } : undefined).value;
  return (
    <div className="change">
      <header>
        <b className="t2">±</b>
        <span className="mono clip grow" title={change.path}>
          {change.path}
        </span>
      </header>
      {words === undefined ? (
        <div className="sides">
          <pre className="is-old">{printed(change.oldValue)}</pre>
          <pre className="is-new">{printed(change.newValue)}</pre>
        </div>
      ) : (
        <div className="sides is-one">
          <pre>{words.changes.map(toWord)}</pre>
        </div>
      )}
    </div>
  );
}

function toWord({ op, text }: { op: 'equal' | 'remove' | 'add'; text: string }, place: number) {
  const key = `${place} ${op}`;
  if (op === 'remove') return <del key={key}>{text}</del>;
  if (op === 'add') return <ins key={key}>{text}</ins>;
  return <span key={key}>{text}</span>;
}

function printed(value: unknown): string {
  return typeof value === 'string' ? value : (JSON.stringify(value, null, 2) ?? '');
}
