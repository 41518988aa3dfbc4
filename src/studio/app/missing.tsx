import { Link } from '../frame/link.tsx';

/** An address that leads nowhere. */
export function Missing() {
  return (
    <div className="empty">
      <h1>There is no such page</h1>
      <p>
        The address may be from another version of the studio. <Link href="/s">Look at the sessions</Link>
      </p>
    </div>
  );
}
