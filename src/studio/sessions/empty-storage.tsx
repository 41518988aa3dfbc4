import { CopyButton } from '../parts/command.tsx';

const CODE = `import { open } from 'savestate';

const manager = await open('agent.db');
const session = await manager.session('first', { initial: { messages: [] } });
await session.update((state) => state.messages.push('Hello'));`;

/** What to do when there is nothing: the lines that make a first checkpoint. */
export function EmptyStorage() {
  return (
    <div
      style={{
        display: 'grid',
        gridTemplateColumns: '288px minmax(0, 624px)',
        gap: 48,
        justifyContent: 'center',
        alignContent: 'center',
        flex: 1,
      }}
    >
      <div style={{ display: 'grid', gap: 12, alignContent: 'center' }}>
        <h2 style={{ fontSize: 'var(--fs-5)', lineHeight: 'var(--lh-5)' }}>No sessions yet</h2>
        <p className="t2" style={{ fontSize: 'var(--fs-3)', lineHeight: 'var(--lh-3)' }}>
          A session appears here with its first checkpoint. This page is live: leave it open and run your program.
        </p>
      </div>
      <div style={{ position: 'relative', background: 'var(--bg-inset)', borderRadius: 'var(--r2)', padding: 16 }}>
        <pre className="mono" style={{ lineHeight: '20px', overflow: 'auto' }}>
          {CODE}
        </pre>
        <span style={{ position: 'absolute', top: 8, right: 8 }}>
          <CopyButton text={CODE} label="Copy the code" />
        </span>
      </div>
    </div>
  );
}
