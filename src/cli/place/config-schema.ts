import { z } from 'zod';
import { retention } from '../../view/shapes.ts';

const count = z.int().min(0);

/** What savestate.yaml may say. */
export const configSchema = z.strictObject({
  /** `sqlite:path`, `file:folder`, `postgres://...`, or a path; relative to the file. */
  storage: z.string().min(1).optional(),
  tenant: z.string().min(1).optional(),
  schema: z.string().min(1).optional(),
  /** The session that commands are about when none is named. */
  session: z.string().min(1).optional(),
  /** Who answers: a `team.yaml`, or a module that exports `createTeam` or `createFleet`; relative to the file. */
  team: z.string().min(1).optional(),
  /** The module with the code of the team or the workflow; relative to the file. */
  registry: z.string().min(1).optional(),
  /** The workflow that `continue` goes on with if it was not begun on this machine; relative to the file. */
  workflow: z.string().min(1).optional(),
  /** The file with the settings of runs; default: the `workflow.yaml` beside this file. `false`: that one is not ours. */
  settings: z.union([z.string().min(1), z.literal(false)]).optional(),
  /** Long-term memory: a file, relative to this one, or `postgres://...`. */
  memory: z.string().min(1).optional(),
  /** Keys of an encrypted storage: `file:path`, relative to this file, or `env:NAME`; one key for all, or one for each session. */
  encryption: z.strictObject({ keys: z.string().min(1), keyPer: z.enum(['storage', 'session']).optional() }).optional(),
  /** What `prune` keeps when it is not told. */
  retention: retention
    .extend({
      types: z
        .record(
          z.string(),
          z.strictObject({
            keepLast: count.optional(),
            maxAgeMs: count.optional(),
            untilCompleted: z.boolean().optional(),
            untilCleared: z.boolean().optional(),
          }),
        )
        .optional(),
    })
    .optional(),
});

export type Config = z.infer<typeof configSchema>;
