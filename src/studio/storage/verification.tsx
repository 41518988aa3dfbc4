import { useState } from 'react';
import { countOf, formatCount } from '../data/format.ts';
import { ask, type Reply } from '../data/server.ts';
import { Icon } from '../parts/icon.tsx';
import { Trouble } from '../parts/trouble.tsx';

/** More findings than this are counted; the command line lists them all. */
const SHOWN_FINDINGS = 200;

type Verification = {
  readonly report: Reply<'POST /v1/verify'> | undefined;
  readonly error: Error | undefined;
  readonly isBusy: boolean;
  readonly verify: () => void;
  readonly forget: () => void;
};

/** The last check of everything that is stored, if somebody asked for one. */
export function useVerification(): Verification {
  const [found, setFound] = useState<Pick<Verification, 'report' | 'error'>>({ report: undefined, error: undefined });
  const [isBusy, setBusy] = useState(false);
  const verify = async () => {
    setBusy(true);
    await ask('POST /v1/verify', { body: {} }).then(
      (report) => setFound({ report, error: undefined }),
      (error: Error) => setFound({ report: undefined, error }),
    );
    setBusy(false);
  };
  return {
    ...found,
    isBusy,
    verify: () => void verify(),
    forget: () => setFound({ report: undefined, error: undefined }),
  };
}

/** Checks everything, and says in a word how it is. */
export function VerifyButton({ verification: { report, isBusy, verify } }: { verification: Verification }) {
  return (
    <>
      {report !== undefined && report.status !== 'damaged' && (
        <span className="status ok">
          <Icon name="shield" small />
          Verified: {formatCount(report.chunks)} chunks
          {report.forgotten.length > 0 && `; ${countOf(report.forgotten.length, 'session')} without a key`}
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

/** What is bad and where, until somebody has read it; the rest of the page works. */
export function VerifyReport({ verification: { report, error, forget } }: { verification: Verification }) {
  if (error !== undefined) return <Trouble error={error} />;
  const findings = report?.findings ?? [];
  if (findings.length === 0) return null;
  return (
    <section className="note danger band" role="alert" aria-label="What verifying found">
      <Icon name="error" small />
      <div className="grow">
        <b className="medium">{countOf(findings.length, 'finding')}</b>
        <ul className="scroll" style={{ maxHeight: 160 }}>
          {findings.slice(0, SHOWN_FINDINGS).map(({ subject, problem }) => (
            <li key={`${subject} ${problem}`}>
              <span className="mono">{subject}</span> {problem}
            </li>
          ))}
        </ul>
        {findings.length > SHOWN_FINDINGS && <p>The rest: savestate verify --read-data</p>}
      </div>
      <button type="button" className="btn sm" onClick={forget}>
        Close
      </button>
    </section>
  );
}
