import { encodeSegment } from '../../server/contract/segment.ts';
import {
  formatBytes,
  formatCost,
  formatCount,
  formatDuration,
  formatInline,
  formatShort,
  formatTime,
  quoteArgument,
  shortId,
} from '../data/format.ts';
import type { Reply } from '../data/server.ts';
import { useReply, useReplyIf } from '../data/use-reply.ts';
import { Link } from '../frame/link.tsx';
import { sessionAddress } from '../frame/place.ts';
import { branchesWith } from '../graph/hover-card.tsx';
import type { Look } from '../look/look.ts';
import { CommandLine, CopyButton } from '../parts/command.tsx';
import { Icon } from '../parts/icon.tsx';
import { Integrity } from '../parts/status.tsx';
import { Loaded } from '../parts/trouble.tsx';
import { TagForm } from './tag-form.tsx';

/** What a checkpoint is: everything but its state. */
export function Inspector(props: Look) {
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
                <EffectList id={id} />
                <TagForm sessionId={sessionId} checkpoint={checkpoint} />
                <div className="sect" style={{ border: 0, display: 'grid', gap: 8 }}>
                  <a className="btn" href={`/v1/sessions/${encodeSegment(sessionId)}/export`} download>
                    <Icon name="export" small />
                    Export session
                  </a>
                  <CommandLine command={`savestate show ${id} --session ${quoteArgument(sessionId)}`} />
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

function Facts({ view, selection, sessionId, checkpoint }: Look & { checkpoint: Opened }) {
  const { timeline } = view;
  const parent = timeline.parents[selection.at] ?? -1;
  const { models } = checkpoint.usage;
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
    ['Size', <Size key="size" checkpoint={checkpoint} />],
    ...spentRows(checkpoint),
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

/** What is new of the state, and how large it is in all. */
function Size({ checkpoint: { newBytes, stateBytes } }: { checkpoint: Opened }) {
  if (newBytes === undefined) return formatBytes(stateBytes);
  return (
    <span title="New since the parent, before compression, of the whole state">
      {formatBytes(newBytes)} <span className="t3">of {formatBytes(stateBytes)} logical</span>
    </span>
  );
}

/** What the step used, and all up to it. */
function spentRows({ step, usage: { totals } }: Opened): readonly (readonly [string, string])[] {
  if (totals === undefined) return [];
  const cost = (usd: number) => (usd > 0 ? `, ${formatCost(usd)}` : '');
  const used = ({ inputTokens, outputTokens, costUsd }: typeof totals) =>
    `${formatCount(inputTokens)} in, ${formatCount(outputTokens)} out${cost(costUsd)}`;
  const all = `${formatShort(totals.inputTokens + totals.outputTokens)} tokens${cost(totals.costUsd)}`;
  return step === undefined
    ? [['So far', used(totals)]]
    : [
        ['Tokens', used(step)],
        ['So far', all],
      ];
}

/** More calls than these are in the tab. */
const SHOWN_CALLS = 8;

/** The calls that were recorded on the way to it. */
function EffectList({ id }: { id: string }) {
  const items = useReply('GET /v1/checkpoints/{checkpoint}/effects', { params: { checkpoint: id } }).value?.items ?? [];
  if (items.length === 0) return null;
  return (
    <div className="sect">
      <h3>Effects</h3>
      <ul className="effects">
        {items.slice(0, SHOWN_CALLS).map(({ branch, ordinal, name, status, replayedFrom, durationMs }) => (
          <li key={`${branch} ${ordinal}`}>
            <Icon
              name={status === 'failed' ? 'fail' : 'effect'}
              small
              className={status === 'failed' ? 'danger' : ''}
            />
            <span className="mono clip grow" title={name}>
              {name}
            </span>
            <span className="t3">
              {status === 'done' ? (replayedFrom === undefined ? 'live' : 'recorded') : status}
            </span>
            {durationMs !== undefined && <span className="num">{formatDuration(durationMs)}</span>}
          </li>
        ))}
        {items.length > SHOWN_CALLS && (
          <li className="t3">and {items.length - SHOWN_CALLS} more, in the tab Effects</li>
        )}
      </ul>
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
