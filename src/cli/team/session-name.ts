/** A name for a new session that sorts by time, and that people can read: `chat-20260131-080000`. */
export function newSessionName(kind: 'chat' | 'run'): string {
  return `${kind}-${new Date().toISOString().slice(0, 19).replaceAll(/[-:]/g, '').replace('T', '-')}`;
}
