import { Link } from '../frame/link.tsx';
import { sessionAddress, setQuery } from '../frame/place.ts';
import { Icon } from '../parts/icon.tsx';
import type { Compared } from './compare-screen.tsx';
import { GROUPINGS, type Grouping } from './step-rows.ts';

type BarProps = { compared: Compared; sessionId: string; by: Grouping; onJump: (by: 1 | -1) => void };

/** Where the branches part, how much is alike, how the lines are ordered, and the way from one difference to the next. */
export function CompareBar({ compared, sessionId, by, onJump }: BarProps) {
  const { counts, forkPoint, firstDivergence, steps } = compared;
  return (
    <div className="subbar">
      {forkPoint !== undefined && (
        <>
          <span>
            Fork point: checkpoint{' '}
            <Link href={sessionAddress(sessionId, { at: forkPoint.id })}>#{forkPoint.sequence}</Link>
          </span>
          <span className="vr" />
        </>
      )}
      {firstDivergence !== undefined && (
        <>
          <span>First divergence: {placeOf(steps[firstDivergence])}</span>
          <span className="vr" />
        </>
      )}
      <span className="t2 clip">
        {counts.same} alike, {counts.changed} changed, {counts.only_a} only in A, {counts.only_b} only in B
      </span>
      <span className="grow" />
      <GroupChoice by={by} />
      <Jump word="Previous difference" icon="up" onJump={() => onJump(-1)} />
      <Jump word="Next difference" icon="down" onJump={() => onJump(1)} />
      <span className="t3">
        <kbd>p</kbd> <kbd>n</kbd>
      </span>
    </div>
  );
}

function GroupChoice({ by }: { by: Grouping }) {
  return (
    <>
      <span className="t2">Group by</span>
      <fieldset className="seg sm" aria-label="Group by">
        {GROUPINGS.map((name) => (
          <label key={name}>
            <input
              type="radio"
              name="by"
              checked={name === by}
              onChange={() => setQuery({ by: name === 'Step' ? undefined : name }, { replace: true })}
            />
            {name}
          </label>
        ))}
      </fieldset>
    </>
  );
}

function Jump({ word, icon, onJump }: { word: string; icon: 'up' | 'down'; onJump: () => void }) {
  return (
    <button type="button" className="btn sm icon" aria-label={word} title={word} onClick={onJump}>
      <Icon name={icon} small />
    </button>
  );
}

/** The same in words: the checkpoint that brought the message, or, of a rewritten list, which message it is. */
function placeOf(step: Compared['steps'][number] | undefined): string {
  const said = step?.a ?? step?.b;
  return said?.sequence === undefined ? `message ${(said?.index ?? 0) + 1}` : `checkpoint #${said.sequence}`;
}

/** The number of a step, on the side that has it. */
export function numberOf(step: Compared['steps'][number] | undefined): string {
  const said = step?.a ?? step?.b;
  return said === undefined ? '' : `#${said.sequence ?? said.index + 1}`;
}
