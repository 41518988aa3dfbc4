import { useEffect, useRef } from 'react';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { formatBytes } from '../data/format.ts';
import { alpha, colourOf } from '../frame/canvas-colours.ts';
import { useTheme } from '../frame/theme.ts';

type Point = { readonly until: string; readonly logicalBytes: number; readonly uniqueBytes?: number | undefined };

/** At least so high, and the higher the window is, the higher. */
const heightOf = () => Math.max(240, Math.round(innerHeight * 0.4));

/** Logical and unique bytes over time, each on a scale of its own. */
export function GrowthChart({ growth }: { growth: readonly Point[] }) {
  const box = useRef<HTMLDivElement>(null);
  const theme = useTheme();
  // biome-ignore lint/correctness/useExhaustiveDependencies: another theme has other colours
  useEffect(() => {
    const element = box.current;
    if (element === null || growth.length < 2) return undefined;
    const times = growth.map(({ until }) => Date.parse(until) / 1_000);
    const data: uPlot.AlignedData = [
      times,
      growth.map(({ logicalBytes }) => logicalBytes),
      growth.map(({ uniqueBytes }) => uniqueBytes ?? null),
    ];
    const chart = new uPlot(optionsOf(widthOf(element)), data, element);
    const observer = new ResizeObserver(() => chart.setSize({ width: widthOf(element), height: heightOf() }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      chart.destroy();
    };
  }, [growth, theme]);
  if (growth.length < 2)
    return (
      <p className="empty" style={{ height: heightOf() }}>
        Too little is stored to draw how it grew.
      </p>
    );
  return <div ref={box} style={{ padding: '8px 16px' }} />;
}

/** What is left between the paddings. */
function widthOf({ clientWidth }: HTMLElement): number {
  return clientWidth - 32;
}

function optionsOf(width: number): uPlot.Options {
  const axis = { stroke: colourOf('text-3'), grid: { stroke: colourOf('line'), width: 1 }, ticks: { show: false } };
  const bytes = (_: uPlot, values: number[]) => values.map((value) => formatBytes(value));
  return {
    width,
    height: heightOf(),
    legend: { show: false },
    cursor: { show: false },
    scales: { unique: {} },
    axes: [
      axis,
      { ...axis, values: bytes, size: 72 },
      { ...axis, scale: 'unique', side: 1, values: bytes, size: 72, grid: { show: false } },
    ],
    series: [
      {},
      {
        stroke: colourOf('text-2'),
        width: 1.5,
        points: { show: false },
      },
      {
        scale: 'unique',
        stroke: colourOf('accent'),
        fill: alpha(colourOf('accent'), 0.15),
        width: 1.5,
        points: { show: false },
      },
    ],
  };
}
