import { laneToken } from '../frame/canvas-colours.ts';

type SelectProps = {
  label: string;
  names: readonly string[];
  /** All branches in the order of their lanes. */
  lanes: readonly string[];
  branch: string;
  onChoose: (branch: string) => void;
};

/** Chooses a branch; its lane is told by a number in a circle, as in the graph. */
export function BranchSelect({ label, names, lanes, branch, onChoose }: SelectProps) {
  const lane = lanes.indexOf(branch);
  return (
    <label className="branch-select">
      {label !== 'Branch' && <span className="medium">{label}</span>}
      {lane >= 0 && (
        <span className="lane" style={{ '--c': `var(--${laneToken(lane)})` } as React.CSSProperties} aria-hidden="true">
          {lane + 1}
        </span>
      )}
      <select aria-label={label} value={branch} onChange={(event) => onChoose(event.target.value)}>
        {!names.includes(branch) && <option value={branch}>{branch}</option>}
        {names.map((name) => (
          <option key={name} value={name}>
            {name}
          </option>
        ))}
      </select>
    </label>
  );
}
