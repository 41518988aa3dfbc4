/** Claude Agent SDK: transcripts as sessions. */

export { SavestateSessionStore } from './savestate-session-store.ts';
