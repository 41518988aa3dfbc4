import { ICONS, type IconName } from './icons.ts';

/** A drawing beside a word; it says nothing to a screen reader. */
export function Icon({ name, small = false, className = '' }: { name: IconName; small?: boolean; className?: string }) {
  return (
    <svg className={`i ${small ? 's' : ''} ${className}`} aria-hidden="true" viewBox="0 0 16 16">
      <path d={ICONS[name]} />
    </svg>
  );
}
