import { countOf, formatBytes, formatCount, formatDuration } from '../data/format.ts';
import type { Reply } from '../data/server.ts';
import { useNow } from '../data/use-now.ts';
import { useReply } from '../data/use-reply.ts';
import { Link } from '../frame/link.tsx';
import { sessionAddress, setQuery } from '../frame/place.ts';
import { CopyCommand } from '../parts/command.tsx';
import { Loaded } from '../parts/trouble.tsx';
import { GrowthChart } from './growth-chart.tsx';
import { RetentionSimulator } from './retention-simulator.tsx';
import { useVerification, VerifyButton, VerifyReport } from './verification.tsx';

const RANGES = [
  ['7', '7 days'],
  ['30', '30 days'],
  ['all', 'All'],
] as const;
const HOUR_MS = 3_600_000;

/** What is stored, where it grows, and what retention would do. */
export function StorageScreen({ query }: { query: URLSearchParams }) {
  const server = useReply('GET /v1/server').value;
  const [range] = RANGES.find(([days]) => days === query.get('days')) ?? RANGES[2];
  const hour = Math.floor(useNow() / HOUR_MS); // asked again every hour, not every moment
  const from = range === 'all' ? {} : { from: new Date((hour - Number(range) * 24) * HOUR_MS).toISOString() };
  const growth = useReply('GET /v1/storage/growth', { query: from });
  const verification = useVerification();
  return (
    <>
      <header className="topbar">
        <h1>Storage</h1>
        <span className="chip mono">{server?.storage ?? '…'}</span>
        <span className="grow" />
        <fieldset className="seg" aria-label="Time">
          {RANGES.map(([days, words]) => (
            <label key={days}>
              <input
                type="radio"
                name="days"
                checked={days === range}
                onChange={() => setQuery({ days: days === 'all' ? undefined : days }, { replace: true })}
              />
              {words}
            </label>
          ))}
        </fieldset>
        <VerifyButton verification={verification} />
        <CopyCommand command="savestate stats" />
      </header>
      <VerifyReport verification={verification} />
      <div className="figures">
        <div className="pane scroll">
          <Loaded of={growth}>{(figures) => <Figures figures={figures} isAll={range === 'all'} />}</Loaded>
        </div>
        <RetentionSimulator isReadOnly={server?.isReadOnly === true} />
      </div>
    </>
  );
}

type Growth = Reply<'GET /v1/storage/growth'>;

function Figures({ figures, isAll }: { figures: Growth; isAll: boolean }) {
  const { logicalBytes, uniqueBytes, checkpoints, sessions, growth } = figures;
  const tiles: readonly (readonly [string, string, string])[] = [
    ['Logical', formatBytes(logicalBytes), 'all states in full'],
    ['Unique', formatBytes(uniqueBytes), shareOf(uniqueBytes, logicalBytes)],
    ['Shared', uniqueBytes === 0 ? '–' : `${(logicalBytes / uniqueBytes).toFixed(1)}×`, 'uses of each byte'],
    ['Checkpoints', formatCount(checkpoints), `in ${countOf(sessions.length, 'session')}`],
    rateOf(growth),
  ];
  return (
    <>
      <div className="tiles">
        {tiles.map(([name, value, more]) => (
          <div key={name}>
            <span className="t2">{name}</span>
            <b>{value}</b>
            <span className="t3 small">{more}</span>
          </div>
        ))}
      </div>
      <div className="head">
        <h2>Growth</h2>
        <span className="t2">{datesOf(growth)}</span>
        <span className="grow" />
        <span className="t3">above: logical; below: unique, by path; before compression</span>
      </div>
      <GrowthChart figures={figures} />
      <div className="two">
        <PathTable paths={figures.paths} isAll={isAll} />
        <SharingTable sessions={sessions} />
      </div>
    </>
  );
}

function shareOf(part: number, whole: number): string {
  return whole === 0 ? 'each chunk once' : `${((part / whole) * 100).toFixed(1)} % of logical`;
}

const DAY_MS = 24 * HOUR_MS;

/** How much comes a day, or, where there was less than one, in all the time. */
function rateOf(growth: Growth['growth']): readonly [string, string, string] {
  const [first, last] = [growth[0], growth.at(-1)];
  if (first === undefined || last === undefined) return ['Growth', '–', 'nothing is stored'];
  const spanMs = Date.parse(last.until) - Date.parse(first.until);
  const bytes = (last.uniqueBytes ?? 0) - (first.uniqueBytes ?? 0);
  if (spanMs < DAY_MS) return ['Growth', formatBytes(bytes), `in ${formatDuration(spanMs)}`];
  return ['Growth', formatBytes(bytes / (spanMs / DAY_MS)), `a day, over ${formatDuration(spanMs)}`];
}

function datesOf(growth: Growth['growth']): string {
  const format = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short' });
  const days = [growth[0], growth.at(-1)].flatMap((point) => (point ? [format.format(Date.parse(point.until))] : []));
  return [...new Set(days)].join(' to ');
}

function PathTable({ paths, isAll }: { paths: Growth['paths']; isAll: boolean }) {
  const most = Math.max(1, ...paths.map((path) => path.uniqueBytes));
  return (
    <div>
      <div className="head">
        <h2>Paths that grow most</h2>
        <span className="grow" />
        <span className="t3">{isAll ? 'unique' : 'unique, in this time'}</span>
      </div>
      <table className="table tight">
        <tbody>
          {paths.map(({ path, uniqueBytes: bytes }) => (
            <tr key={path}>
              <td className="mono clip" title={path}>
                {path}
              </td>
              <td style={{ width: 88 }}>
                <div className="bar" style={{ width: `${(bytes / most) * 100}%` }} />
              </td>
              <td className="num" style={{ width: 88 }}>
                {formatBytes(bytes)}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function SharingTable({ sessions }: { sessions: Growth['sessions'] }) {
  return (
    <div>
      <div className="head">
        <h2>Sharing by session</h2>
        <span className="grow" />
        <span className="t3">unique, logical, shared</span>
      </div>
      <table className="table tight">
        <tbody>
          {sessions.map(({ id, uniqueBytes, logicalBytes }) => (
            <tr key={id}>
              <td title={id}>
                <Link href={sessionAddress(id)}>{id}</Link>
              </td>
              <td className="num" style={{ width: 80 }}>
                {formatBytes(uniqueBytes)}
              </td>
              <td className="num t3" style={{ width: 80 }}>
                {formatBytes(logicalBytes)}
              </td>
              <td className="num" style={{ width: 64 }}>
                {uniqueBytes === 0 ? '' : `${(logicalBytes / uniqueBytes).toFixed(1)}×`}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
