import { useState } from 'react';
import { live, useLiveStatus } from '../data/live.ts';
import { Icon } from '../parts/icon.tsx';
import { renewAccess } from './access.ts';

/** Says that the server is gone, or does not let this page in any more, and what to do; what is shown and typed stays. */
export function AccessBand() {
  const status = useLiveStatus();
  if (status === 'refused') return <Refused />;
  return status === 'gone' && <Gone />;
}

function Gone() {
  return (
    <div role="alert" className="note danger band">
      <Icon name="error" small />
      <p className="grow">
        <b className="medium">The server does not answer.</b> What is loaded stays readable, and the page tries again by
        itself. If you started it again, it may have another address: open the one it printed.
      </p>
      <button type="button" className="btn sm" onClick={() => live.retry()}>
        Try now
      </button>
    </div>
  );
}

function Refused() {
  const [problem, setProblem] = useState<string | undefined>();
  const submit = (event: React.FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const address = new FormData(event.currentTarget).get('address');
    renewAccess(String(address)).then(
      () => setProblem(undefined),
      (error: unknown) => setProblem((error as Error).message),
    );
  };
  return (
    <div role="alert" className="note warn band">
      <Icon name="warn" small />
      <p className="grow">
        <b className="medium">This page has no valid token.</b> Open the address that the server printed last, or paste
        it here: what is shown and typed stays.
        {problem !== undefined && <span className="danger"> {problem}</span>}
      </p>
      <form onSubmit={submit} style={{ display: 'flex', gap: 8 }}>
        <input
          name="address"
          className="input sm mono"
          aria-label="Address or token"
          placeholder="http://…/#token=…"
          autoComplete="off"
          required
        />
        <button type="submit" className="btn sm">
          Continue
        </button>
      </form>
    </div>
  );
}
