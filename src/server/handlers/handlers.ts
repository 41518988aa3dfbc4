import type { Handlers } from './call.ts';
import { CHANGE_HANDLERS } from './change-handlers.ts';
import { EFFECT_HANDLERS } from './effect-handlers.ts';
import { HISTORY_HANDLERS } from './history-handlers.ts';
import { KEEP_HANDLERS } from './keep-handlers.ts';
import { MEMORY_HANDLERS } from './memory-handlers.ts';
import { RUN_HANDLERS } from './run-handlers.ts';
import { SESSION_HANDLERS } from './session-handlers.ts';
import { STATE_HANDLERS } from './state-handlers.ts';
import { STORAGE_HANDLERS } from './storage-handlers.ts';

/** What answers each route. */
export const HANDLERS: Handlers = {
  ...SESSION_HANDLERS,
  ...STATE_HANDLERS,
  ...EFFECT_HANDLERS,
  ...HISTORY_HANDLERS,
  ...CHANGE_HANDLERS,
  ...RUN_HANDLERS,
  ...KEEP_HANDLERS,
  ...MEMORY_HANDLERS,
  ...STORAGE_HANDLERS,
};
