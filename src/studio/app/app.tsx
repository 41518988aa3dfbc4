import { lazy, Suspense, useState } from 'react';
import { type KeyMap, useKeys } from '../frame/keys.ts';
import { type Address, go, usePlace } from '../frame/place.ts';
import { nextTheme } from '../frame/theme.ts';
import { Skeleton } from '../parts/trouble.tsx';
import { SessionScreen } from '../session/session-screen.tsx';
import { SessionsScreen } from '../sessions/sessions-screen.tsx';
import { AccessBand } from './access-band.tsx';
import { KeyHelp } from './key-help.tsx';
import { Missing } from './missing.tsx';
import { Palette } from './palette.tsx';
import { Rail } from './rail.tsx';

const ForkScreen = lazy(async () => ({ default: (await import('../fork/fork-screen.tsx')).ForkScreen }));
const CompareScreen = lazy(async () => ({ default: (await import('../compare/compare-screen.tsx')).CompareScreen }));
const DiffScreen = lazy(async () => ({ default: (await import('../diff/diff-screen.tsx')).DiffScreen }));
const StorageScreen = lazy(async () => ({ default: (await import('../storage/storage-screen.tsx')).StorageScreen }));
const RunsScreen = lazy(async () => ({ default: (await import('../runs/runs-screen.tsx')).RunsScreen }));
const MemoryScreen = lazy(async () => ({ default: (await import('../memory/memory-screen.tsx')).MemoryScreen }));

/** What lies above the screen. */
type Above = 'palette' | 'keys';

/** The page: the rail, the screen that the address names, and what lies above them. */
export function App() {
  const place = usePlace();
  const [above, setAbove] = useState<Above | undefined>();
  // The browser tells a little later that one was closed: another may be open by then.
  const close = (closed: Above) => setAbove((now) => (now === closed ? undefined : now));
  const keys: KeyMap = {
    '/': () => setAbove('palette'),
    'Ctrl+k': () => setAbove('palette'),
    '?': () => setAbove('keys'),
    'g s': () => go('/s'),
    'g r': () => go('/runs'),
    'g m': () => go('/memory'),
    'g t': () => go('/storage'),
    T: nextTheme,
  };
  useKeys(keys);
  return (
    <>
      <Rail screen={place.path[0] ?? 's'} onKeys={() => setAbove('keys')} />
      <main className="page">
        <AccessBand />
        <Suspense fallback={<Skeleton />}>
          <Screen place={place} onSearch={() => setAbove('palette')} />
        </Suspense>
      </main>
      {above === 'palette' && <Palette onClose={() => close('palette')} />}
      {above === 'keys' && <KeyHelp onClose={() => close('keys')} />}
    </>
  );
}

function Screen({ place: { path, query }, onSearch }: { place: Address; onSearch: () => void }) {
  const [screen = 's', session, page] = path;
  if (screen === 'runs') return <RunsScreen query={query} />;
  if (screen === 'memory') return <MemoryScreen query={query} />;
  if (screen === 'storage') return <StorageScreen query={query} />;
  if (screen !== 's') return <Missing />;
  if (session === undefined) return <SessionsScreen query={query} onSearch={onSearch} />;
  if (page === undefined) return <SessionScreen key={session} sessionId={session} query={query} onSearch={onSearch} />;
  if (page === 'fork') return <ForkScreen key={session} sessionId={session} query={query} />;
  if (page === 'diff') return <DiffScreen sessionId={session} query={query} />;
  return page === 'compare' ? <CompareScreen sessionId={session} query={query} /> : <Missing />;
}
