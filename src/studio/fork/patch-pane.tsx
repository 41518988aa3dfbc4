import { memo } from 'react';
import { countOf, formatBytes } from '../data/format.ts';
import { CopyButton } from '../parts/command.tsx';
import { Trouble } from '../parts/trouble.tsx';
import type { Preview } from './use-preview.ts';

/** What the edit changes, as a patch. */
export const PatchPane = memo(function PatchPane({ preview: { reply, error } }: { preview: Preview }) {
  const patch = (reply?.patch ?? []) as readonly { op: string; path: string; value?: unknown }[];
  return (
    <>
      <div className="head" style={{ borderTop: '1px solid var(--line)' }}>
        <h2>Patch</h2>
        <span className="t2 grow clip">
          {patch.length === 0
            ? 'No change yet: the fork begins as it was'
            : `${countOf(patch.length, 'change')}, ${formatBytes(reply?.newBytes ?? 0)}; everything else is shared`}
        </span>
        <CopyButton text={JSON.stringify(patch)} label="Copy the patch" />
      </div>
      {error !== undefined && <Trouble error={error} />}
      {reply?.isValid === false && <p className="patch danger">{reply.problem}</p>}
      {patch.length > 0 && (
        <div className="patch">
          {patch.map(({ op, path, value }) => (
            <div key={`${op} ${path}`}>
              <span className={op === 'add' ? 'ok' : op === 'remove' ? 'danger' : 't2'}>{op.padEnd(8)}</span> {path}{' '}
              {value === undefined ? '' : JSON.stringify(value)}
            </div>
          ))}
        </div>
      )}
    </>
  );
});
