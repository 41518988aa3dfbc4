// Screens of a terminal as one SVG that shows them one after the other, without a script.
import widthOf from 'string-width';

const [CHAR, LINE, PAD, TOP] = [8.4, 19, 14, 40];
const CLASSES = { 1: 'b', 2: 'd', 31: 'r', 32: 'g', 33: 'y', 36: 'c' };
const OFF = { 22: ['b', 'd'], 39: ['r', 'g', 'y', 'c'] };
const STYLE = `text{font:14px/1 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#d6deeb;white-space:pre}
.b{font-weight:700}.d{fill:#7d8ba1}.r{fill:#ff7a7a}.g{fill:#8ddb8c}.y{fill:#ffd479}.c{fill:#7fd1ff}.p{fill:#8ddb8c}`;

const escapeXml = (text) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');

/** One line as runs of text of one look, each at its column: fonts do not agree on how wide a wide character is. */
function renderLine(line, y, looks) {
  let [column, runs] = [0, ''];
  for (const [nth, part] of line.split('\u001b[').entries()) {
    const [, codes, text] = nth === 0 ? [part, '', part] : (/^([\d;]*)m([\s\S]*)$/.exec(part) ?? [part, '', '']);
    applyCodes(codes, looks);
    for (const { segment: run } of splitWide(text)) {
      const look = looks.size === 0 ? '' : ` class="${[...looks].join(' ')}"`;
      if (run.trim() !== '') runs += `<tspan x="${round(PAD + column * CHAR)}"${look}>${escapeXml(run)}</tspan>`;
      column += widthOf(run);
    }
  }
  return runs === '' ? '' : `<text y="${y}">${runs}</text>\n`;
}

/** Puts looks on and takes them off, as the codes of a terminal say. */
function applyCodes(codes, looks) {
  for (const code of codes === '' ? [] : codes.split(';').map(Number)) {
    for (const gone of OFF[code] ?? []) looks.delete(gone);
    if (CLASSES[code] !== undefined) looks.add(CLASSES[code]);
  }
}

/** Wide characters stand alone. */
function splitWide(text) {
  const parts = [];
  for (const { segment } of new Intl.Segmenter().segment(text)) {
    const isWide = widthOf(segment) > 1;
    const last = parts.at(-1);
    if (last === undefined || isWide || last.isWide) parts.push({ segment, isWide });
    else last.segment += segment;
  }
  return parts;
}

const round = (number) => Math.round(number * 10) / 10;

function renderScene({ command, output }, nth, { columns, rows }) {
  const typed = wrap(`$ ${command}`, columns).map((line, at) =>
    at === 0 ? `\u001b[32m$\u001b[39m${line.slice(1)}` : line,
  );
  const lines = [...typed, ...output.trimEnd().split('\n')];
  const shown =
    lines.length > rows
      ? [...lines.slice(0, rows - 1), `\u001b[2m… ${lines.length - rows + 1} lines more\u001b[22m`]
      : lines;
  const looks = new Set();
  return `<g class="s s${nth}">\n${shown.map((line, at) => renderLine(line, TOP + 14 + at * LINE, looks)).join('')}</g>`;
}

function wrap(text, columns) {
  return text.match(new RegExp(`.{1,${columns}}`, 'gu')) ?? [''];
}

/** When each screen is seen, in parts of the whole. */
function renderTimes(scenes) {
  const total = scenes.reduce((sum, { seconds }) => sum + seconds, 0);
  let passed = 0;
  const rules = scenes.map(({ seconds }, nth) => {
    const [from, to] = [passed, passed + seconds].map((at) => round((at / total) * 100));
    passed += seconds;
    const before = from === 0 ? '' : `0%,${round(from - 0.1)}%{opacity:0}`;
    const after = to === 100 ? '' : `${to}%,100%{opacity:0}`;
    return `@keyframes k${nth}{${before}${from}%,${round(to - 0.1)}%{opacity:1}${after}}.s${nth}{animation:k${nth} ${total}s infinite step-end}`;
  });
  return `.s{opacity:0}${rules.join('\n')}
@media (prefers-reduced-motion:reduce){.s{animation:none}.s${scenes.length - 2}{opacity:1}}`;
}

/** Renders screens: each a command, what it showed, and for how many seconds it is seen. */
export function renderSvg(scenes, { columns, rows }) {
  const [width, height] = [round(columns * CHAR + PAD * 2), TOP + rows * LINE + PAD];
  const dots = ['#ff5f57', '#febc2e', '#28c840'].map(
    (fill, n) => `<circle cx="${PAD + 8 + n * 20}" cy="18" r="6" fill="${fill}"/>`,
  );
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img" aria-label="A session at the terminal: run, log, fork, continue, diff">
<style>${STYLE}
${renderTimes(scenes)}</style>
<rect width="100%" height="100%" rx="10" fill="#0f1724"/>
${dots.join('')}
${scenes.map((scene, nth) => renderScene(scene, nth, { columns, rows })).join('\n')}
</svg>
`;
}
