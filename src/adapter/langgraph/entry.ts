import { importWithPeers } from './peers.ts';

/** `index.ts` as Node imports it. Bundlers do not take a top-level await, so they get `index.ts` itself. */
export const {
  exportThreads,
  importThreads,
  langGraphClasses,
  openPostgresSaverDatabase,
  openSqliteSaverDatabase,
  SavestateSaver,
  SavestateStore,
  SavestateThreads,
} = await importWithPeers(() => import('./index.ts'));
