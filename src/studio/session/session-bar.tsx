import { Link } from '../frame/link.tsx';
import { sessionAddress, setQuery } from '../frame/place.ts';
import type { Look } from '../look/look.ts';
import { BranchSelect } from '../parts/branch-select.tsx';
import { Crumbs } from '../parts/crumbs.tsx';
import { Icon } from '../parts/icon.tsx';
import { LiveChip } from '../parts/live-chip.tsx';
import { SearchButton } from '../parts/search-button.tsx';
import { Status } from '../parts/status.tsx';
import { RunMenu } from '../runs/run-menu.tsx';
import { isAnswered, type RunView } from '../runs/use-run.ts';

type BarProps = Look & { run: RunView; onSearch: () => void };

/** Where one is, how it is going, and what can be done. */
export function SessionBar({ sessionId, view, selection, session, run, onSearch }: BarProps) {
  const { timeline } = view;
  const tip = timeline.tipOf(selection.branch);
  const isHead = selection.at === tip && session?.currentBranch === selection.branch;
  const isRunning = session?.leases.some(({ branch }) => branch === selection.branch) === true;
  const isHeard = run.run?.branch === selection.branch && isAnswered(run.run);
  return (
    <header className="topbar">
      <Crumbs sessionId={sessionId} />
      <span className="t3">/</span>
      <BranchSelect
        label="Branch"
        names={timeline.branchNames}
        lanes={timeline.names.branches}
        branch={selection.branch}
        onChoose={(branch) => setQuery({ branch, at: undefined, range: undefined })}
      />
      {tip >= 0 && (
        <Status
          status={isRunning ? 'running' : isHeard ? 'answered' : timeline.statusOn(selection.branch, tip)}
          more={` at #${timeline.sequences[tip]}`}
        />
      )}
      <span className="grow" />
      <LiveChip isFollowing={selection.isFollowing} newCount={selection.newCount} onFollow={selection.follow} />
      <span className="vr" />
      <RunMenu view={run} origin={{ sessionId, id: selection.id, isHead }} />
      <Link className="btn" href={sessionAddress(sessionId, { page: 'compare', ...timeline.pairOf(selection.branch) })}>
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
