import { useEffect, useRef } from 'react';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { formatBytes } from '../data/format.ts';
import type { Reply } from '../data/server.ts';
import { alpha, colourOf, FONT } from '../frame/canvas-colours.ts';
import { useTheme } from '../frame/theme.ts';

type Growth = Reply<'GET /v1/storage/growth'>;

const AXIS_WIDTH = 72;
const FOOT = 24;
/** The higher the window is, the higher, but never without room for labels. */
const heightOf = () => Math.max(280, Math.round(innerHeight * 0.46));

/** One line or area of a chart: its name beside its last value, and whether it is filled down to the axis. */
type Line = {
  readonly name: string;
  readonly values: readonly number[];
  readonly last: number;
  readonly isFilled: boolean;
};

/** Above all states in full, below what is stored of them, by the paths that grew most; both over the same time. */
export function GrowthChart({ figures: { growth, paths } }: { figures: Growth }) {
  const box = useRef<HTMLDivElement>(null);
  const theme = useTheme();
  // biome-ignore lint/correctness/useExhaustiveDependencies: another theme has other colours
  useEffect(() => {
    const element = box.current;
    if (element === null || growth.length < 2) return undefined;
    const times = growth.map(({ until }) => Date.parse(until) / 1_000);
    const charts = [logicalOf(growth), uniqueOf(growth, paths)].map((lines, n) => {
      const data = [times, ...lines.map(({ values }) => [...values])] as uPlot.AlignedData;
      return new uPlot(optionsOf(lines, { width: widthOf(element), isLast: n === 1, times }), data, element);
    });
    const observer = new ResizeObserver(() => {
      for (const [n, chart] of charts.entries()) chart.setSize({ width: widthOf(element), height: shareOf(n === 1) });
    });
    observer.observe(element);
    return () => {
      observer.disconnect();
      for (const chart of charts) chart.destroy();
    };
  }, [growth, paths, theme]);
  if (growth.length < 2)
    return (
      <p className="empty" style={{ height: heightOf() }}>
        Too little is stored to draw how it grew.
      </p>
    );
  return <div ref={box} className="growth" role="img" aria-label="Logical bytes above, unique bytes by path below" />;
}

/** What is left between the paddings. */
function widthOf({ clientWidth }: HTMLElement): number {
  return clientWidth - 16;
}

function shareOf(isLast: boolean): number {
  return Math.round(heightOf() * (isLast ? 0.6 : 0.4));
}

function logicalOf(growth: Growth['growth']): Line[] {
  const values = growth.map(({ logicalBytes }) => logicalBytes);
  return [{ name: '', values, last: values.at(-1) ?? 0, isFilled: false }];
}

/** All that is unique, and, below each other, what is left of it without the path above. */
function uniqueOf(growth: Growth['growth'], paths: Growth['paths']): Line[] {
  const told = growth[0]?.pathBytes?.length ?? 0;
  const below = (count: number) =>
    growth.map(({ uniqueBytes = 0, pathBytes = [] }) => uniqueBytes - sum(pathBytes.slice(0, count)));
  return Array.from({ length: told + 1 }, (_, n) => ({
    name: n === told ? 'the rest' : (paths[n]?.path ?? ''),
    values: below(n),
    last: n === told ? (below(n).at(-1) ?? 0) : (growth.at(-1)?.pathBytes?.[n] ?? 0),
    isFilled: true,
  }));
}

function sum(values: readonly number[]): number {
  return values.reduce((all, value) => all + value, 0);
}

type Frame = { readonly width: number; readonly isLast: boolean; readonly times: readonly number[] };

function optionsOf(lines: readonly Line[], { width, isLast, times }: Frame): uPlot.Options {
  const axis = {
    stroke: colourOf('text-3'),
    grid: { stroke: colourOf('line'), width: 1 },
    ticks: { show: false },
    font: `11px ${FONT}`,
  };
  return {
    width,
    height: shareOf(isLast),
    padding: [8, 8, isLast ? 0 : 8, 0],
    legend: { show: false },
    cursor: { show: false },
    scales: { y: { range: (_, __, most) => [0, Math.max(1, most * 1.1)] } },
    axes: [
      { ...axis, show: isLast, size: FOOT, grid: { show: false }, space: 88, values: timesIn(times) },
      { ...axis, size: AXIS_WIDTH, space: 40, values: (_, values) => values.map(formatBytes) },
    ],
    series: [
      {},
      ...lines.map(({ isFilled }, n) => ({
        stroke: colourOf(isFilled ? 'accent' : 'text-2'),
        width: n === 0 ? 1.5 : 0.5,
        points: { show: false },
        ...(isFilled && { fill: alpha(colourOf('accent'), 0.15) }),
      })),
    ],
    hooks: { draw: [(chart) => drawLabels(chart, lines)] },
  };
}

const DAY_S = 86_400;
/** Half of the widest label of a time, in pixels. */
const HALF_LABEL = 26;

/** Times as people read them on an axis this long. */
function timesIn(times: readonly number[]): (chart: uPlot, values: number[]) => string[] {
  const spanS = (times.at(-1) ?? 0) - (times[0] ?? 0);
  const form: Intl.DateTimeFormatOptions =
    spanS > 2 * DAY_S
      ? { day: 'numeric', month: 'short' }
      : { hour: '2-digit', minute: '2-digit', ...(spanS < 600 && { second: '2-digit' }) };
  const format = new Intl.DateTimeFormat('en-GB', form);
  return (chart, values) => {
    const words = values.map((value) => format.format(value * 1_000));
    // What was said already is said once, and what has no room left is not said.
    const end = chart.bbox.width / (devicePixelRatio || 1) - HALF_LABEL;
    return words.map((word, n) => (word === words[n - 1] || chart.valToPos(values[n] ?? 0, 'x') > end ? '' : word));
  };
}

/** A band that is lower than this has no room for its name. */
const LEAST_BAND = 14;

/** What the chart is of in its corner, and the names of paths at the right end, each in its band. */
function drawLabels({ ctx: g, bbox, valToPos }: uPlot, lines: readonly Line[]): void {
  const scale = devicePixelRatio || 1;
  const [first] = lines;
  g.save();
  g.textBaseline = 'middle';
  g.fillStyle = colourOf('text');
  g.font = `600 ${11 * scale}px ${FONT}`;
  g.textAlign = 'left';
  const all = formatBytes(first?.values.at(-1) ?? 0);
  g.fillText(`${first?.isFilled ? 'Unique' : 'Logical'} ${all}`, bbox.left + 8 * scale, bbox.top + 10 * scale);
  g.font = `${11 * scale}px ${FONT}`;
  g.textAlign = 'right';
  for (const [n, { name, values, last }] of lines.entries()) {
    const [top, bottom] = [values, lines[n + 1]?.values ?? []].map((band) => valToPos(band.at(-1) ?? 0, 'y', true));
    if (name === '' || ((bottom ?? 0) - (top ?? 0)) / scale < LEAST_BAND) continue;
    g.fillText(`${name} ${formatBytes(last)}`, bbox.left + bbox.width - 8 * scale, ((top ?? 0) + (bottom ?? 0)) / 2);
  }
  g.restore();
}
