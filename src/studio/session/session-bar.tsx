import { Link } from '../frame/link.tsx';
import { sessionAddress, setQuery } from '../frame/place.ts';
import { Crumbs } from '../parts/crumbs.tsx';
import { Icon } from '../parts/icon.tsx';
import { LiveChip } from '../parts/live-chip.tsx';
import { SearchButton } from '../parts/search-button.tsx';
import { Status } from '../parts/status.tsx';
import { RunMenu } from '../runs/run-menu.tsx';
import type { RunView } from '../runs/use-run.ts';
import type { Shared } from './session-screen.tsx';

type BarProps = Shared & { run: RunView; onSearch: () => void };

/** Where one is, how it is going, and what can be done. */
export function SessionBar({ sessionId, view, selection, session, run, onSearch }: BarProps) {
  const { timeline } = view;
  const tip = timeline.tipOf(selection.branch);
  const isHead = selection.at === tip && session?.currentBranch === selection.branch;
  const isRunning = session?.leases.some(({ branch }) => branch === selection.branch) === true;
  return (
    <header className="topbar">
      <Crumbs sessionId={sessionId} />
      <span className="t3">/</span>
      <BranchSelect names={timeline.branchNames} branch={selection.branch} />
      {tip >= 0 && (
        <Status status={isRunning ? 'running' : timeline.statusOf(tip)} more={` at #${timeline.sequences[tip]}`} />
      )}
      <span className="grow" />
      <LiveChip isFollowing={selection.isFollowing} newCount={selection.newCount} onFollow={selection.follow} />
      <span className="vr" />
      <RunMenu view={run} origin={{ sessionId, id: selection.id, isHead }} />
      <Link className="btn" href={sessionAddress(sessionId, { page: 'compare', a: selection.branch })}>
        <Icon name="compare" small />
        Compare
      </Link>
      <Link className="btn primary" href={sessionAddress(sessionId, { page: 'fork', at: selection.id })}>
        <Icon name="fork" small />
        Fork here<kbd>f</kbd>
      </Link>
      <SearchButton onSearch={onSearch} />
    </header>
  );
}

function BranchSelect({ names, branch }: { names: readonly string[]; branch: string }) {
  return (
    <select
      className="select"
      style={{ width: 'auto', maxWidth: 200 }}
      aria-label="Branch"
      value={branch}
      onChange={(event) => setQuery({ branch: event.target.value, at: undefined })}
    >
      {!names.includes(branch) && <option value={branch}>{branch}</option>}
      {names.map((name) => (
        <option key={name} value={name}>
          {name}
        </option>
      ))}
    </select>
  );
}
