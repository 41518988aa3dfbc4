import { useLiveStatus } from '../data/live.ts';

const WORDS = {
  connecting: 'Connecting',
  lost: 'Reconnecting',
  gone: 'Reconnecting',
  refused: 'No access',
} as const;

/** Whether the page follows, how much is new, and whether the server is there. */
export function LiveChip({
  isFollowing,
  newCount = 0,
  onFollow,
}: {
  isFollowing: boolean;
  newCount?: number;
  onFollow?: () => void;
}) {
  const status = useLiveStatus();
  if (status !== 'live')
    return (
      <span className="live lost" role="status" title="The page shows what it has, and tries again by itself">
        {WORDS[status]}
      </span>
    );
  const title = isFollowing ? 'Follows the newest checkpoint' : 'Press . to follow the newest checkpoint';
  return (
    <button
      type="button"
      className={`live ${isFollowing ? '' : 'paused'}`}
      onClick={onFollow}
      title={title}
      disabled={onFollow === undefined}
    >
      Live {newCount > 0 && <b>{newCount} new</b>}
      {onFollow !== undefined && <kbd>.</kbd>}
    </button>
  );
}
