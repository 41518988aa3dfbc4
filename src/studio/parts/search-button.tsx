import { Icon } from './icon.tsx';

/** Opens the palette: a field where there is room, a button where there is not. */
export function SearchButton({ onSearch, isWide = false }: { onSearch: () => void; isWide?: boolean }) {
  return (
    <>
      <button
        type="button"
        className={`search ${isWide ? '' : 'hide-s'}`}
        style={{ width: isWide ? 304 : 176 }}
        onClick={onSearch}
      >
        <Icon name="search" small />
        <span className="grow" style={{ textAlign: 'left' }}>
          {isWide ? 'Search ids, text, tools, tags' : 'Search'}
        </span>
        <kbd>/</kbd>
      </button>
      {!isWide && (
        <button type="button" className="btn icon show-s" aria-label="Search" onClick={onSearch}>
          <Icon name="search" />
        </button>
      )}
    </>
  );
}
