import {
  formatBytes,
  formatCost,
  formatCount,
  formatInline,
  formatTime,
  quoteArgument,
  shortId,
} from '../data/format.ts';
import type { Reply } from '../data/server.ts';
import { useReplyIf } from '../data/use-reply.ts';
import { Link } from '../frame/link.tsx';
import { sessionAddress } from '../frame/place.ts';
import { branchesWith } from '../graph/hover-card.tsx';
import { CommandLine, CopyButton } from '../parts/command.tsx';
import { Icon } from '../parts/icon.tsx';
import { Integrity } from '../parts/status.tsx';
import { Loaded } from '../parts/trouble.tsx';
import type { Shared } from './session-screen.tsx';
import { TagForm } from './tag-form.tsx';

/** What a checkpoint is: everything but its state. */
export function Inspector(props: Shared) {
  const { selection, view, sessionId } = props;
  const { id } = selection;
  const asked = useReplyIf(
    'GET /v1/checkpoints/{checkpoint}',
    id === undefined ? undefined : { params: { checkpoint: id } },
  );
  return (
    <aside className="pane" aria-label="Inspector">
      <div className="head" style={{ height: 'var(--subbar)', background: 'var(--bg)' }}>
        <h2 style={{ fontSize: 'var(--fs-4)' }}>
          {id === undefined ? 'No checkpoint' : `#${view.timeline.sequences[selection.at]}`}
        </h2>
        <span className="mono t2 clip grow">{id === undefined ? '' : shortId(id)}</span>
        {id !== undefined && <CopyButton text={id} label="Copy the id" />}
      </div>
      <div className="scroll grow">
        {id !== undefined && (
          <Loaded of={asked}>
            {(checkpoint) => (
              <>
                <Facts {...props} checkpoint={checkpoint} />
                <TagForm sessionId={sessionId} checkpoint={checkpoint} />
                <div className="sect" style={{ border: 0, display: 'grid', gap: 8 }}>
                  <a className="btn" href={`/v1/sessions/${encodeURIComponent(sessionId)}/export`} download>
                    <Icon name="export" small />
                    Export session
                  </a>
                  <CommandLine command={`savestate show ${shortId(id)} --session ${quoteArgument(sessionId)}`} />
                </div>
              </>
            )}
          </Loaded>
        )}
      </div>
    </aside>
  );
}

type Opened = Reply<'GET /v1/checkpoints/{checkpoint}'>;

function Facts({ view, selection, sessionId, checkpoint }: Shared & { checkpoint: Opened }) {
  const { timeline } = view;
  const parent = timeline.parents[selection.at] ?? -1;
  const { totals, models } = checkpoint.usage;
  const rows: readonly (readonly [string, React.ReactNode])[] = [
    [
      'Parent',
      parent < 0 ? (
        'none'
      ) : (
        <ParentLink
          key="parent"
          sessionId={sessionId}
          id={timeline.ids[parent] ?? ''}
          sequence={timeline.sequences[parent] ?? 0}
        />
      ),
    ],
    ['Contained in', <Names key="branches" names={branchesWith({ timeline }, selection.at)} />],
    ['Author', checkpoint.author ?? checkpoint.agentId],
    ['Reason', checkpoint.reason],
    ['Trigger', checkpoint.trigger],
    ['Type', checkpoint.type],
    [
      'Saved',
      <span key="saved" className="mono">
        {formatTime(Date.parse(checkpoint.savedAt))}
      </span>,
    ],
    ['State', formatBytes(checkpoint.stateBytes)],
    ['Tokens', totals && `${formatCount(totals.inputTokens)} in, ${formatCount(totals.outputTokens)} out`],
    ['Cost', totals && totals.costUsd > 0 && `${formatCost(totals.costUsd)} so far`],
    ['Model', models.join(', ')],
    ['User', checkpoint.userId],
    [
      'Digest',
      <span key="digest" className="mono">
        {checkpoint.digest.slice(0, 12)}
      </span>,
    ],
    ['Fingerprint', checkpoint.fingerprint === undefined ? undefined : formatInline(checkpoint.fingerprint)],
    ['Integrity', <Integrity key="integrity" damaged={0} />], // it was read whole, and every digest matched
    ['Note', checkpoint.note],
  ];
  return (
    <div className="sect">
      <dl className="dl">
        {rows
          .filter(([, value]) => value !== undefined && value !== false && value !== '')
          .map(([name, value]) => (
            <Fact key={name} name={name}>
              {value}
            </Fact>
          ))}
      </dl>
    </div>
  );
}

function Fact({ name, children }: { name: string; children: React.ReactNode }) {
  return (
    <>
      <dt>{name}</dt>
      <dd style={{ overflowWrap: 'anywhere' }}>{children}</dd>
    </>
  );
}

/** More names than these are counted. */
const SHOWN_NAMES = 5;

function Names({ names }: { names: readonly string[] }) {
  const more = names.slice(SHOWN_NAMES);
  return (
    <span title={names.join(', ')}>
      {names.slice(0, SHOWN_NAMES).join(', ')}
      {more.length > 0 && <span className="t2"> and {more.length} more</span>}
    </span>
  );
}

function ParentLink({ sessionId, id, sequence }: { sessionId: string; id: string; sequence: number }) {
  return (
    <Link href={sessionAddress(sessionId, { at: id })}>
      #{sequence} <span className="mono">{shortId(id)}</span>
    </Link>
  );
}
