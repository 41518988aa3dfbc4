import { createRequire } from 'node:module';
import { withPeers } from './peers.ts';

/** `index.ts` as `require` gets it: without LangChain it says what to install, and `require` takes no top-level await. */
export const {
  exportThreads,
  importThreads,
  langGraphClasses,
  openPostgresSaverDatabase,
  openSqliteSaverDatabase,
  SavestateSaver,
  SavestateStore,
  SavestateThreads,
} = withPeers(() => createRequire(import.meta.url)('./index.js') as typeof import('./index.ts'));
