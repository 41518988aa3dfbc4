const WIDTH = 96;
const HEIGHT = 20;
/** More points than pixels are not seen. */
const MOST_POINTS = 96;

/** A small line, with the first point at or above the mark. */
export function Spark({ values, mark }: { values: readonly number[]; mark: number }) {
  const points = thin(values);
  const top = Math.max(mark * 1.25, ...points);
  const x = (n: number) => (n / Math.max(1, points.length - 1)) * (WIDTH - 6) + 2;
  const y = (value: number) => HEIGHT - 2 - (value / top) * (HEIGHT - 4);
  const first = points.findIndex((value) => value >= mark);
  const line = points.map((value, n) => `${x(n).toFixed(1)} ${y(value).toFixed(1)}`).join('L');
  const label = first < 0 ? 'No sign of drift' : 'Drift was noticed';
  return (
    <svg width={WIDTH} height={HEIGHT} viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={label}>
      <path d={`M0 ${y(mark)}H${WIDTH}`} stroke="var(--line-strong)" strokeDasharray="2 3" />
      <path
        d={`M${line}`}
        fill="none"
        stroke={`var(--${first < 0 ? 'text-3' : 'warn-mark'})`}
        strokeWidth="1.5"
        strokeLinejoin="round"
      />
      {first >= 0 && <circle cx={x(first)} cy={y(points[first] ?? 0)} r="2.5" fill="var(--warn-mark)" />}
    </svg>
  );
}

/** At most as many points as are seen; of each stretch the highest. */
function thin(values: readonly number[]): number[] {
  const step = Math.ceil(values.length / MOST_POINTS);
  const starts = Array.from({ length: Math.ceil(values.length / step) }, (_, n) => n * step);
  return starts.map((start) => Math.max(...values.slice(start, start + step)));
}
