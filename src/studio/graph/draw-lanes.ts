import { FLAG } from '../data/timeline.ts';
import { colourOf, laneToken } from '../frame/canvas-colours.ts';
import type { Surface } from '../parts/canvas.tsx';
import type { GraphPicture } from './draw-graph.ts';
import { HEAD_HEIGHT, laneX, ROW_HEIGHT, rowY } from './graph-geometry.ts';
import { rowAt } from './graph-rows.ts';

/** Draws the lines of the branches that pass the screen, then the nodes on it. */
export function drawLanes(surface: Surface, picture: GraphPicture, visible: readonly number[]): void {
  for (const branch of picture.timeline.names.branches.keys()) drawLane(surface, picture, branch);
  drawPath(surface, picture);
  for (const row of visible) drawNode(surface, picture, row);
}

/** From the checkpoint it begins at to its tip; cut off at the edges, since a canvas line of a million pixels is slow. */
function drawLane({ g, height }: Surface, picture: GraphPicture, branch: number): void {
  const { timeline, rows, top } = picture;
  const tip = timeline.tips.get(branch) ?? -1;
  const first = timeline.firsts.get(branch) ?? -1;
  if (tip < 0 || first < 0) return;
  const from = timeline.parents[first] ?? -1;
  const begin = rowY(rowAt(rows, from >= 0 ? from : first), top);
  const end = rowY(rowAt(rows, tip), top);
  if (end < HEAD_HEIGHT || begin > height) return;
  const x = laneX(branch);
  const clamp = (y: number) => Math.max(-ROW_HEIGHT, Math.min(height + ROW_HEIGHT, y));
  g.strokeStyle = colourOf(laneToken(branch));
  g.lineWidth = 1.5;
  g.beginPath();
  if (from >= 0 && begin > -ROW_HEIGHT * 2) {
    const origin = laneX(timeline.branches[from] ?? 0);
    g.moveTo(origin, begin);
    g.bezierCurveTo(origin, begin + 14, x, begin + 6, x, begin + 22);
  } else g.moveTo(x, clamp(begin));
  g.lineTo(x, clamp(end));
  g.stroke();
}

/** The way from the root to the selection, stronger than the lanes it goes along. */
function drawPath({ g, height }: Surface, picture: GraphPicture): void {
  const { timeline, rows, top, selected } = picture;
  if (selected < 0) return;
  g.strokeStyle = colourOf('accent');
  g.lineWidth = 2.5;
  for (let at = selected; at >= 0; ) {
    const branch = timeline.branches[at] ?? 0;
    const first = timeline.starts[at] ?? at;
    const from = timeline.parents[first] ?? -1;
    const y = (place: number) => Math.max(-ROW_HEIGHT, Math.min(height + ROW_HEIGHT, rowY(rowAt(rows, place), top)));
    g.beginPath();
    g.moveTo(laneX(branch), y(at));
    if (from >= 0) {
      const [origin, begin] = [laneX(timeline.branches[from] ?? 0), rowY(rowAt(rows, from), top)];
      g.lineTo(laneX(branch), Math.max(-ROW_HEIGHT, Math.min(y(at), begin + 22)));
      if (begin > -ROW_HEIGHT * 2) g.bezierCurveTo(laneX(branch), begin + 6, origin, begin + 14, origin, begin);
    } else g.lineTo(laneX(branch), y(first));
    g.stroke();
    at = from;
  }
}

function drawNode({ g }: Surface, picture: GraphPicture, row: number): void {
  const { timeline, rows, selected, path, top, hovered } = picture;
  const entry = rows[row];
  if (entry === undefined) return;
  const branch = timeline.branches[entry.at] ?? 0;
  const [x, y] = [laneX(branch), rowY(row, top)];
  const colour = colourOf(path[entry.at] === 1 ? 'accent' : laneToken(branch));
  if (entry.count > 1) {
    drawDots(g, { x, y, colour, back: colourOf(row === hovered ? 'bg-hover' : 'bg') });
    return;
  }
  const flags = timeline.flags[entry.at] ?? 0;
  const isRing = (timeline.childCounts[entry.at] ?? 0) > 1 || (flags & (FLAG.person | FLAG.branches)) !== 0;
  const isSelected = entry.at === selected;
  g.beginPath();
  g.arc(x, y, isSelected ? 5.5 : isRing ? 4.5 : 4, 0, 7);
  g.fillStyle = isRing ? colourOf('bg') : (flags & FLAG.failed) !== 0 ? colourOf('danger') : colour;
  g.fill();
  if (isRing) {
    g.lineWidth = 2;
    g.strokeStyle = colour;
    g.stroke();
  }
  if (!isSelected) return;
  g.lineWidth = 1.5;
  g.strokeStyle = colourOf('accent');
  g.beginPath();
  g.arc(x, y, 7.5, 0, 7);
  g.stroke();
}

function drawDots(g: CanvasRenderingContext2D, at: { x: number; y: number; colour: string; back: string }): void {
  g.fillStyle = at.back;
  g.fillRect(at.x - 4, at.y - 8, 8, 16);
  g.fillStyle = at.colour;
  for (const offset of [-5, 0, 5]) {
    g.beginPath();
    g.arc(at.x, at.y + offset, 1.5, 0, 7);
    g.fill();
  }
}
