import { Link } from '../frame/link.tsx';
import { nextTheme } from '../frame/theme.ts';
import { Icon } from '../parts/icon.tsx';
import { type IconName, MARK } from '../parts/icons.ts';

const SCREENS: readonly { readonly path: string; readonly word: string; readonly icon: IconName }[] = [
  { path: 's', word: 'Sessions', icon: 'sessions' },
  { path: 'runs', word: 'Runs', icon: 'runs' },
  { path: 'memory', word: 'Memory', icon: 'memory' },
  { path: 'storage', word: 'Storage', icon: 'storage' },
];

/** The way between the screens. */
export function Rail({ screen, onKeys }: { screen: string; onKeys: () => void }) {
  return (
    <nav className="rail" aria-label="Main">
      <span className="mark" title="Savestate">
        <svg className="i" aria-hidden="true" viewBox="0 0 20 20">
          <path d={MARK} />
        </svg>
      </span>
      {SCREENS.map(({ path, word, icon }) => (
        <Link key={path} href={`/${path}`} aria-current={screen === path ? 'page' : undefined}>
          <Icon name={icon} />
          {word}
        </Link>
      ))}
      <button type="button" className="end" onClick={onKeys}>
        <Icon name="help" />
        Keys
      </button>
      <button type="button" onClick={nextTheme}>
        <Icon name="theme" />
        Theme
      </button>
    </nav>
  );
}
