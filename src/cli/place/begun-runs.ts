import { appendFileSync, existsSync, mkdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Context } from '../context.ts';

/** Where the definition of a workflow is, and the module with its code. */
export type WorkflowPlace = { readonly file: string; readonly registry: string | undefined };

/**
 * Which workflow files this person ran here, by session. It is what `continue` goes by: what a checkpoint says of files and modules may
 * be somebody else's word, so nothing is loaded because of it.
 */
export class BegunRuns {
  readonly #path: string;

  constructor(folder: string) {
    this.#path = join(folder, 'workflows.jsonl');
  }

  static async open(context: Context): Promise<BegunRuns> {
    return new BegunRuns(await context.stateFolder());
  }

  add(sessionId: string, place: WorkflowPlace): void {
    const found = this.find(sessionId);
    if (found?.file === place.file && found.registry === place.registry) return;
    mkdirSync(dirname(this.#path), { recursive: true });
    appendFileSync(this.#path, `${JSON.stringify({ sessionId, ...place })}\n`);
  }

  find(sessionId: string): WorkflowPlace | undefined {
    const text = existsSync(this.#path) ? readFileSync(this.#path, 'utf8') : '';
    const runs = text.split('\n').flatMap(parseLine);
    const found = runs.findLast((run) => run.sessionId === sessionId);
    return found === undefined ? undefined : { file: found.file, registry: found.registry };
  }
}

/** A line that a crash cut off is left out. */
function parseLine(line: string): (WorkflowPlace & { readonly sessionId: string })[] {
  try {
    return line === '' ? [] : [JSON.parse(line) as WorkflowPlace & { sessionId: string }];
  } catch {
    return [];
  }
}
