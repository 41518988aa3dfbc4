import { CHANGE_ROUTES } from './change-routes.ts';
import { HISTORY_ROUTES } from './history-routes.ts';
import { KEEP_ROUTES } from './keep-routes.ts';
import { MEMORY_ROUTES } from './memory-routes.ts';
import type { RouteTable } from './route.ts';
import { RUN_ROUTES } from './run-routes.ts';
import { SESSION_ROUTES } from './session-routes.ts';
import { STATE_ROUTES } from './state-routes.ts';
import { STORAGE_ROUTES } from './storage-routes.ts';

/** The table of routes: validation, OpenAPI, the reference page and the types of the client all come from it. */
export const ROUTES = {
  ...SESSION_ROUTES,
  ...STATE_ROUTES,
  ...HISTORY_ROUTES,
  ...CHANGE_ROUTES,
  ...RUN_ROUTES,
  ...KEEP_ROUTES,
  ...MEMORY_ROUTES,
  ...STORAGE_ROUTES,
} as const satisfies RouteTable;

/** The type of the table. */
export type Routes = typeof ROUTES;
