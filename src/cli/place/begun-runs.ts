import { join } from 'node:path';
import { LinesFile } from './lines-file.ts';
import type { OwnFolder } from './state-folder.ts';

/** Where the definition of a workflow is, and the module with its code. */
export type WorkflowPlace = { readonly file: string; readonly registry: string | undefined };

/**
 * Which workflow files this person ran here, by session. It is what `continue` goes by: what a checkpoint says of files and modules may
 * be somebody else's word, so nothing is loaded because of it.
 */
export class BegunRuns {
  readonly #runs: LinesFile<WorkflowPlace & { readonly sessionId: string }>;

  constructor(folder: string) {
    this.#runs = new LinesFile(join(folder, 'workflows.jsonl'));
  }

  static async open(context: OwnFolder): Promise<BegunRuns> {
    return new BegunRuns(await context.stateFolder());
  }

  add(sessionId: string, place: WorkflowPlace): void {
    const found = this.find(sessionId);
    if (found?.file === place.file && found.registry === place.registry) return;
    this.#runs.add({ sessionId, ...place });
  }

  find(sessionId: string): WorkflowPlace | undefined {
    const found = this.#runs.read().findLast((run) => run.sessionId === sessionId);
    return found === undefined ? undefined : { file: found.file, registry: found.registry };
  }
}
