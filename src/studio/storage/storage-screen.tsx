import { useState } from 'react';
import { formatBytes, formatCount } from '../data/format.ts';
import { ask, type Reply } from '../data/server.ts';
import { useReply } from '../data/use-reply.ts';
import { Link } from '../frame/link.tsx';
import { sessionAddress } from '../frame/place.ts';
import { Icon } from '../parts/icon.tsx';
import { Loaded, Trouble } from '../parts/trouble.tsx';
import { GrowthChart } from './growth-chart.tsx';
import { RetentionSimulator } from './retention-simulator.tsx';

/** What is stored, where it grows, and what retention would do. */
export function StorageScreen() {
  const server = useReply('GET /v1/server').value;
  const growth = useReply('GET /v1/storage/growth');
  return (
    <>
      <header className="topbar">
        <h1>Storage</h1>
        <span className="chip mono">{server?.storage ?? '…'}</span>
        <span className="grow" />
        <VerifyButton />
      </header>
      <div className="figures">
        <div className="pane scroll">
          <Loaded of={growth}>{(figures) => <Figures figures={figures} />}</Loaded>
        </div>
        <RetentionSimulator isReadOnly={server?.isReadOnly === true} />
      </div>
    </>
  );
}

type Growth = Reply<'GET /v1/storage/growth'>;

function Figures({ figures }: { figures: Growth }) {
  const { logicalBytes, uniqueBytes, checkpoints, sessions, paths, growth } = figures;
  const tiles: readonly (readonly [string, string, string])[] = [
    ['Logical', formatBytes(logicalBytes), 'all states in full'],
    ['Unique', formatBytes(uniqueBytes), 'each chunk once'],
    ['Shared', uniqueBytes === 0 ? '–' : `${(logicalBytes / uniqueBytes).toFixed(1)}×`, 'uses of each byte'],
    ['Checkpoints', formatCount(checkpoints), `in ${formatCount(sessions.length)} sessions`],
  ];
  const most = Math.max(1, ...paths.map((path) => path.uniqueBytes));
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
        <span className="grow" />
        <span className="t2">grey, left: logical bytes</span>
        <span className="accent">blue, right: unique bytes</span>
      </div>
      <GrowthChart growth={growth} />
      <div className="two">
        <div>
          <div className="head">
            <h2>Paths that grow most</h2>
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
        <SharingTable sessions={sessions} />
      </div>
    </>
  );
}

function SharingTable({ sessions }: { sessions: Growth['sessions'] }) {
  return (
    <div>
      <div className="head">
        <h2>Sharing by session</h2>
        <span className="grow" />
        <span className="t3">unique, logical</span>
      </div>
      <table className="table tight">
        <tbody>
          {sessions.slice(0, 50).map((session) => (
            <tr key={session.id}>
              <td>
                <Link href={sessionAddress(session.id)}>{session.id}</Link>
              </td>
              <td className="num" style={{ width: 88 }}>
                {formatBytes(session.uniqueBytes)}
              </td>
              <td className="num t3" style={{ width: 88 }}>
                {formatBytes(session.logicalBytes)}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function VerifyButton() {
  const [report, setReport] = useState<Reply<'POST /v1/verify'>>();
  const [error, setError] = useState<Error>();
  const [isBusy, setBusy] = useState(false);
  const verify = async () => {
    setBusy(true);
    await ask('POST /v1/verify', { body: {} }).then(setReport, setError);
    setBusy(false);
  };
  return (
    <>
      {error !== undefined && <Trouble error={error} compact />}
      {report !== undefined && (
        <span
          className={`status ${report.status === 'clean' ? 'ok' : 'danger'}`}
          title={report.findings.map(({ subject, problem }) => `${subject}: ${problem}`).join('\n')}
        >
          <Icon name={report.status === 'clean' ? 'shield' : 'error'} small />
          {report.status === 'clean'
            ? `Verified: ${formatCount(report.chunks)} chunks`
            : `${report.findings.length} findings`}
        </span>
      )}
      <button
        type="button"
        className="btn"
        onClick={verify}
        disabled={isBusy}
        title={isBusy ? 'Verifying' : 'Reads and checks everything'}
      >
        <Icon name="shield" small />
        {isBusy ? 'Verifying' : 'Verify now'}
      </button>
    </>
  );
}
