import { countOf, quoteArgument } from '../data/format.ts';
import { Link } from '../frame/link.tsx';
import { sessionAddress, setQuery } from '../frame/place.ts';
import type { Look } from '../look/look.ts';
import { CopyCommands } from '../parts/command.tsx';
import { Icon } from '../parts/icon.tsx';

/** Finds the first bad step of a branch: a person says of the one in the middle whether it is good, until two neighbours are left. */
export function BisectBand({ look, query }: { look: Look; query: URLSearchParams }) {
  const { view, selection, path, sessionId } = look;
  const { timeline } = view;
  const [good, bad] = ['good', 'bad'].map((end) => path.steps.indexOf(timeline.find(query.get(end) ?? undefined)));
  if (good === undefined || bad === undefined || good < 0 || bad <= good) return null;
  const [goodId, badId] = [good, bad].map((step) => timeline.ids[path.steps[step] ?? -1] ?? '');
  const nameOf = (step: number) => `#${timeline.sequences[path.steps[step] ?? -1]}`;
  const here = path.steps.indexOf(selection.at);
  const say = (end: 'good' | 'bad') => {
    const [first, last] = end === 'good' ? [here, bad] : [good, here];
    const next = timeline.ids[path.steps[(first + last) >> 1] ?? -1];
    setQuery(
      { [end]: selection.id, at: last - first > 1 ? next : timeline.ids[path.steps[last] ?? -1] },
      { replace: true },
    );
  };
  const isBetween = here > good && here < bad;
  return (
    <section className="note band bisect" aria-label="Bisect">
      <Icon name="bisect" small />
      {bad - good === 1 ? (
        <p className="grow">
          <b className="medium">{nameOf(bad)} is the first bad step:</b> {nameOf(good)} is still good.
        </p>
      ) : (
        <p className="grow">
          <b className="medium">
            {nameOf(good)} is good, {nameOf(bad)} is bad.
          </b>{' '}
          {countOf(bad - good - 1, 'step')} between, about {Math.ceil(Math.log2(bad - good))} to look at.{' '}
          {isBetween ? `Is ${nameOf(here)} good?` : 'Select one between them.'}
        </p>
      )}
      {bad - good > 1 &&
        (['good', 'bad'] as const).map((end) => (
          <button key={end} type="button" className="btn sm" disabled={!isBetween} onClick={() => say(end)}>
            {end[0]?.toUpperCase() + end.slice(1)}
          </button>
        ))}
      {bad - good === 1 && (
        <Link className="btn sm" href={sessionAddress(sessionId, { page: 'fork', at: goodId })}>
          <Icon name="fork" small />
          Fork at {nameOf(good)}
        </Link>
      )}
      <CopyCommands commands={[`savestate bisect start ${badId} ${goodId} --session ${quoteArgument(sessionId)}`]} />
      <button
        type="button"
        className="btn sm quiet"
        onClick={() => setQuery({ good: undefined, bad: undefined }, { replace: true })}
      >
        Stop
      </button>
    </section>
  );
}
