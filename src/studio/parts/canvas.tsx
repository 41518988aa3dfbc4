import { useEffect, useRef } from 'react';
import { useTheme } from '../frame/theme.ts';
import { ICONS, type IconName } from './icons.ts';

/** Where a picture is drawn: the context, and the size in CSS pixels. */
export type Surface = { readonly g: CanvasRenderingContext2D; readonly width: number; readonly height: number };

/** A canvas that is sharp on every screen; drawn again when its size, the theme or what it shows changes. */
export function Canvas({ draw, label }: { draw: (surface: Surface) => void; label: string }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const latest = useRef(draw);
  const theme = useTheme();
  latest.current = draw;
  useEffect(() => {
    const element = canvas.current;
    if (element === null) return undefined;
    const observer = new ResizeObserver(() => paint(element, latest.current));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another theme has other colours
  useEffect(() => {
    if (canvas.current !== null) paint(canvas.current, draw);
  }, [draw, theme]);
  return <canvas ref={canvas} role="img" aria-label={label} />;
}

function paint(canvas: HTMLCanvasElement, draw: (surface: Surface) => void): void {
  const { width, height } = canvas.getBoundingClientRect();
  const scale = devicePixelRatio || 1;
  const [pixelsWide, pixelsHigh] = [Math.round(width * scale), Math.round(height * scale)];
  if (canvas.width !== pixelsWide) canvas.width = pixelsWide;
  if (canvas.height !== pixelsHigh) canvas.height = pixelsHigh;
  const g = canvas.getContext('2d');
  if (g === null || width === 0) return;
  g.setTransform(scale, 0, 0, scale, 0, 0);
  g.clearRect(0, 0, width, height);
  draw({ g, width, height });
}

const paths = new Map<IconName, Path2D>();

/** Draws an icon. */
export function drawIcon(
  g: CanvasRenderingContext2D,
  name: IconName,
  at: { x: number; y: number; size: number; colour: string },
): void {
  const path = paths.get(name) ?? new Path2D(ICONS[name]);
  paths.set(name, path);
  g.save();
  g.translate(at.x, at.y);
  g.scale(at.size / 16, at.size / 16);
  g.strokeStyle = at.colour;
  g.lineWidth = (1.35 * 16) / at.size;
  g.lineCap = 'round';
  g.lineJoin = 'round';
  g.stroke(path);
  g.restore();
}

const fitted = new Map<string, string>();
/** So many texts are known to fit: those of several screens. */
const MOST_FITTED = 2_000;

/** A text that ends in "…" where it would be wider than it may. Measuring is slow, and the same rows are drawn in every frame. */
export function fitText(g: CanvasRenderingContext2D, text: string, width: number): string {
  const key = `${g.font} ${Math.floor(width)} ${text}`;
  const known = fitted.get(key);
  if (known !== undefined) return known;
  if (fitted.size >= MOST_FITTED) fitted.clear();
  const fit = measureFit(g, text, Math.floor(width));
  fitted.set(key, fit);
  return fit;
}

function measureFit(g: CanvasRenderingContext2D, text: string, width: number): string {
  if (g.measureText(text).width <= width) return text;
  let [low, high] = [0, text.length];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (g.measureText(`${text.slice(0, middle)}…`).width <= width) low = middle;
    else high = middle - 1;
  }
  return low === 0 ? '' : `${text.slice(0, low).trimEnd()}…`;
}
