import { countOf } from '../data/format.ts';
import { useKeys } from '../frame/keys.ts';
import { setQuery } from '../frame/place.ts';
import { Icon } from '../parts/icon.tsx';
import type { Change } from './changes.ts';

type BarProps = {
  changes: readonly Change[];
  hiddenCount: number;
  showsAll: boolean;
  isInline: boolean;
  at: number;
  onGo: (to: number) => void;
  children?: React.ReactNode;
};

/** What changed in numbers, how it is shown, and the way from one change to the next. */
export function DiffBar({ changes, hiddenCount, showsAll, isInline, at, onGo, children }: BarProps) {
  const count = (kind: Change['kind']) => changes.filter((change) => change.kind === kind).length;
  const move = (by: number) => onGo(Math.max(0, Math.min(changes.length - 1, at + by)));
  useKeys({ n: () => move(1), p: () => move(-1) });
  return (
    <div className="subbar">
      {children}
      <span className="pm">
        <b className="medium">{countOf(changes.length, 'change')}</b>
        <span className="ok">+{count('added')}</span>
        <span className="danger">−{count('removed')}</span>
        <span className="t2">~{count('changed')}</span>
        {count('moved') > 0 && <span className="accent">⇅{count('moved')}</span>}
      </span>
      <span className="grow" />
      {hiddenCount > 0 && (
        <label className="check">
          <input
            type="checkbox"
            checked={showsAll}
            onChange={() => setQuery({ all: showsAll ? undefined : '1' }, { replace: true })}
          />
          <span title="Copies, counters and the like">{hiddenCount} only for the program</span>
        </label>
      )}
      <fieldset className="seg sm" aria-label="Form of changes">
        {(['Side by side', 'Inline'] as const).map((name) => (
          <label key={name}>
            <input
              type="radio"
              name="form"
              checked={isInline === (name === 'Inline')}
              onChange={() => setQuery({ inline: name === 'Inline' ? '1' : undefined }, { replace: true })}
            />
            {name}
          </label>
        ))}
      </fieldset>
      <span className="t3 num">
        {at < 0 ? '' : `${at + 1} of `}
        {changes.length}
      </span>
      {([-1, 1] as const).map((by) => (
        <button
          key={by}
          type="button"
          className="btn sm icon"
          aria-label={by < 0 ? 'Previous change' : 'Next change'}
          title={by < 0 ? 'Previous change (p)' : 'Next change (n)'}
          onClick={() => move(by)}
        >
          <Icon name={by < 0 ? 'up' : 'down'} small />
        </button>
      ))}
    </div>
  );
}
