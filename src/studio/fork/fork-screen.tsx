import { useEffect } from 'react';
import { shortId } from '../data/format.ts';
import { useReplyIf } from '../data/use-reply.ts';
import { useSession } from '../data/use-timeline.ts';
import { useKeys } from '../frame/keys.ts';
import { Link } from '../frame/link.tsx';
import { go, sessionAddress, setQuery } from '../frame/place.ts';
import { nameAgents } from '../parts/agent.tsx';
import { Crumbs } from '../parts/crumbs.tsx';
import { Icon } from '../parts/icon.tsx';
import { Loaded, NotThere, Trouble } from '../parts/trouble.tsx';
import { BeginsAt } from './begins-at.tsx';
import { EditPane } from './edit-pane.tsx';
import { ForkForm } from './fork-form.tsx';
import { PatchPane } from './patch-pane.tsx';
import { useDraft } from './use-draft.ts';
import { usePreview } from './use-preview.ts';

/** A new branch at a checkpoint, with or without a change. The original stays as it is. */
export function ForkScreen({ sessionId, query }: { sessionId: string; query: URLSearchParams }) {
  const { view, session } = useSession(sessionId);
  const { timeline, version, error, isLoading } = view;
  nameAgents(timeline);
  const asked = query.get('at') ?? undefined;
  const at = timeline.find(asked ?? timeline.ids[timeline.tipOf(session.value?.currentBranch ?? '')]);
  const id = timeline.ids[at];
  // The newest when the page opened, and that one from then on: saves go on beside it.
  useEffect(() => {
    if (asked === undefined && id !== undefined) setQuery({ at: id }, { replace: true });
  }, [asked, id]);
  const checkpoint = useReplyIf(
    'GET /v1/checkpoints/{checkpoint}',
    id === undefined ? undefined : { params: { checkpoint: id } },
  );
  const form = query.get('form') === 'json' ? 'json' : 'messages';
  const draft = useDraft(id, form);
  const preview = usePreview(id, draft.edit);
  const back = sessionAddress(sessionId, { at: id });
  useKeys({ Escape: () => go(back) });
  return (
    <>
      <header className="topbar">
        <Crumbs sessionId={sessionId}>
          <h1>Fork{id !== undefined && ` ${timeline.branchOf(at)} #${timeline.sequences[at]}`}</h1>
          <span className="mono t2">{id === undefined ? '' : shortId(id)}</span>
        </Crumbs>
        <span className="grow" />
        {id !== undefined && (
          <span className="t2 hide-s">{timeline.branchOf(at)} stays as it is. A fork can be undone.</span>
        )}
        <Link className="btn quiet" href={back}>
          <Icon name="x" small />
          Close<kbd>Esc</kbd>
        </Link>
      </header>
      {error !== undefined && <Trouble error={error} />}
      {id === undefined && asked !== undefined && !isLoading && error === undefined && (
        <NotThere at={asked} onFollow={() => go(sessionAddress(sessionId))} />
      )}
      {id !== undefined && (
        <Loaded of={checkpoint}>
          {({ usage }) => (
            <div className="fork">
              <BeginsAt timeline={timeline} version={version} at={at} sessionId={sessionId} />
              <section className="pane" aria-label="Edit">
                <EditPane key={`${id} ${form}`} id={id} form={form} draft={draft} />
                <PatchPane preview={preview} />
              </section>
              <ForkForm
                sessionId={sessionId}
                id={id}
                kind={usage.kind}
                draft={draft}
                preview={preview}
                timeline={timeline}
                version={version}
                at={at}
              />
            </div>
          )}
        </Loaded>
      )}
    </>
  );
}
