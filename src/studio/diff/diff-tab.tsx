import { useReply } from '../data/use-reply.ts';
import { Link } from '../frame/link.tsx';
import { sessionAddress, setQuery } from '../frame/place.ts';
import type { Look } from '../look/look.ts';
import { Icon } from '../parts/icon.tsx';
import { Loaded } from '../parts/trouble.tsx';
import { ChangeList } from './change-list.tsx';
import type { Diff } from './changes.ts';
import { DiffBar } from './diff-bar.tsx';
import { useChanges } from './use-changes.ts';

type TabProps = Pick<Look, 'view' | 'selection' | 'sessionId'> & { id: string; query: URLSearchParams };

/** What changed since the parent, or since any other checkpoint. */
export function DiffTab({ view, selection, sessionId, id, query }: TabProps) {
  const { timeline } = view;
  const other = timeline.ids[selection.second];
  const asked = useReply('GET /v1/diff', {
    query: { after: id, ...(other !== undefined && other !== id && { before: other }) },
  });
  if (other === undefined && (timeline.parents[selection.at] ?? -1) < 0)
    return (
      <p className="empty">
        This is the first checkpoint: there is nothing before it. Ctrl-click another row to compare.
      </p>
    );
  return (
    <Loaded of={asked}>
      {(diff) => <TabContent diff={diff} sessionId={sessionId} hasOther={other !== undefined} query={query} />}
    </Loaded>
  );
}

type ContentProps = { diff: Diff; sessionId: string; hasOther: boolean; query: URLSearchParams };

function TabContent({ diff, sessionId, hasOther, query }: ContentProps) {
  const shown = useChanges(diff, query);
  const { before, after } = diff;
  return (
    <>
      <DiffBar {...shown}>
        <span className="t2 clip">
          Since #{before.sequence} of {before.branch}
        </span>
        {hasOther && (
          <button type="button" className="btn sm quiet" onClick={() => setQuery({ vs: undefined }, { replace: true })}>
            With the parent
          </button>
        )}
        <Link
          className="btn sm icon quiet"
          aria-label="On a page of its own"
          title="On a page of its own"
          href={sessionAddress(sessionId, { page: 'diff', a: before.id, b: after.id })}
        >
          <Icon name="effect" small />
        </Link>
      </DiffBar>
      {diff.hasChanges ? (
        <ChangeList diff={diff} {...shown} isNarrow />
      ) : (
        <p className="empty">The two states are equal.</p>
      )}
    </>
  );
}
