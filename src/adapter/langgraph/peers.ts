import { UnsupportedError } from '../../core/errors.ts';

const MISSING = /^Cannot find package '(@langchain\/[^'/]+)/;
const TOO_OLD = /^The requested module '(@langchain\/[^']+)' does not provide an export/;
const ADVICE = 'Install it: npm install @langchain/langgraph@1 @langchain/core@1 @langchain/langgraph-checkpoint@1';

/** Imports what needs LangGraph; throws an UnsupportedError that says what to install if that is not there, or too old. */
export async function importWithPeers<Module>(load: () => Promise<Module>): Promise<Module> {
  return load().catch(explain);
}

/** The same for what is loaded at once. */
export function withPeers<Module>(load: () => Module): Module {
  try {
    return load();
  } catch (cause) {
    return explain(cause);
  }
}

function explain(cause: unknown): never {
  const message = cause instanceof Error ? cause.message : '';
  const [missing, old] = [MISSING, TOO_OLD].map((pattern) => pattern.exec(message)?.[1]);
  if (missing === undefined && old === undefined) throw cause;
  const wanted = missing === undefined ? `version 1.1 or newer of ${old}` : `the package ${missing}`;
  throw new UnsupportedError(`savestate/langgraph needs ${wanted}. ${ADVICE}`, { cause });
}
