const WIDTH = 640;
const HEIGHT = 360;
const BOX = { left: 64, right: 470, top: 44, bottom: 310 };
/** Told apart also without colour: each series has its own dashes. Ours is drawn last, on top and thick. */
const LINES = [
  { color: '#0a7d55', dash: '', width: 3 },
  { color: '#c2410c', dash: '6 3', width: 1.75 },
  { color: '#6d28d9', dash: '2 3', width: 1.75 },
  { color: '#2563eb', dash: '8 3 2 3', width: 1.75 },
  { color: '#767676', dash: '1 4', width: 1.75 },
];

/** A line chart as SVG, both axes logarithmic. `series` maps a name to its points, `[x, y]`; the first series is ours. */
export function plot({ title, xTitle, series, format }) {
  const points = Object.values(series).flat();
  const x = axis(
    points.map(([at]) => at),
    BOX.left,
    BOX.right,
  );
  const y = axis(
    points.map(([, value]) => value),
    BOX.bottom,
    BOX.top,
  );
  const drawn = Object.entries(series).map(([name, list], at) => drawSeries({ name, list, line: LINES[at], x, y }));
  const lines = drawn.map(({ line }) => line).reverse();
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="system-ui, sans-serif" font-size="12" role="img" aria-label="${title}">
<rect width="${WIDTH}" height="${HEIGHT}" rx="8" fill="#fff"/>
<text x="${BOX.left}" y="24" font-size="14" font-weight="600" fill="#222">${title}</text>
${y.ticks.map((value) => gridLine(value, y.at(value), format)).join('\n')}
${x.ticks.map((value) => `<text x="${x.at(value)}" y="${BOX.bottom + 18}" text-anchor="middle" fill="#555">${value.toLocaleString('en')}</text>`).join('\n')}
<text x="${(BOX.left + BOX.right) / 2}" y="${HEIGHT - 12}" text-anchor="middle" fill="#555">${xTitle}</text>
${lines.join('\n')}
${namesBeside(drawn).join('\n')}
</svg>
`;
}

function gridLine(value, at, format) {
  return `<path d="M${BOX.left} ${at}H${BOX.right}" stroke="#ddd"/><text x="${BOX.left - 8}" y="${at + 4}" text-anchor="end" fill="#555">${format(value)}</text>`;
}

function drawSeries({ name, list, line, x, y }) {
  const places = list.map(([at, value]) => [x.at(at), y.at(value)]);
  const { color, dash, width } = line;
  const dots = places.map(([cx, cy]) => `<circle cx="${cx}" cy="${cy}" r="${width + 0.5}" fill="${color}"/>`).join('');
  const path = `<path d="M${places.join('L')}" fill="none" stroke="${color}" stroke-width="${width}" stroke-dasharray="${dash}"/>`;
  return { name, color, isOurs: line === LINES[0], end: places.at(-1), line: `${path}${dots}` };
}

const NAME_HEIGHT = 16;

/** Names stand at the right end of their lines, pushed apart where two lines end together. */
function namesBeside(drawn) {
  const sorted = drawn.toSorted((a, b) => a.end[1] - b.end[1]);
  let free = BOX.top;
  return sorted.map(({ name, color, isOurs, end: [x, y] }) => {
    const at = Math.max(y, free);
    free = at + NAME_HEIGHT;
    return `<text x="${x + 10}" y="${at + 4}" fill="${color}"${isOurs ? ' font-weight="700"' : ''}>${name}</text>`;
  });
}

/** Places on a logarithmic axis, and the powers of ten on it. */
function axis(values, from, to) {
  const low = Math.floor(Math.log10(Math.min(...values)));
  const high = Math.max(low + 1, Math.ceil(Math.log10(Math.max(...values))));
  const ticks = Array.from({ length: high - low + 1 }, (_, at) => 10 ** (low + at));
  const at = (value) => Math.round(from + ((to - from) * (Math.log10(value) - low)) / (high - low));
  return { ticks, at };
}
