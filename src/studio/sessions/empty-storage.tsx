import { useState } from 'react';
import { ask, replies } from '../data/server.ts';
import { CopyButton } from '../parts/command.tsx';
import { Icon } from '../parts/icon.tsx';
import { Trouble } from '../parts/trouble.tsx';

const CODE = `import { open } from 'savestate';

const manager = await open('agent.db');
const session = await manager.session('first', { initial: { messages: [] } });
await session.update((state) => state.messages.push('Hello'));`;

/** What to do when there is nothing: the lines that make a first checkpoint, or a file that an export wrote. */
export function EmptyStorage({ isReadOnly }: { isReadOnly: boolean }) {
  return (
    <div className="first">
      <div>
        <h2>No sessions yet</h2>
        <p className="t2">
          A session appears here with its first checkpoint. This page is live: leave it open and run your program.
        </p>
        {!isReadOnly && <ImportButton />}
      </div>
      <div className="code">
        <pre className="mono">{CODE}</pre>
        <CopyButton text={CODE} label="Copy the code" />
      </div>
    </div>
  );
}

function ImportButton() {
  const [error, setError] = useState<Error>();
  const read = async (file: File | undefined) => {
    if (file === undefined) return;
    setError(undefined);
    await ask('POST /v1/import', { body: await file.text() }).catch(setError);
    replies.refresh((url) => url.includes('/v1/sessions'));
  };
  return (
    <>
      <label className="btn" title="What “savestate export” wrote">
        <Icon name="export" small />
        Import a file
        <input type="file" className="sr" onChange={(event) => void read(event.target.files?.[0])} />
      </label>
      {error !== undefined && <Trouble error={error} compact />}
    </>
  );
}
