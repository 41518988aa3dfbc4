import { UnsupportedError } from '../../core/errors.ts';

const MISSING = /^Cannot find package '(@langchain\/[^'/]+)/;

/** Imports what needs LangGraph; throws an UnsupportedError that says what to install if that is not there. */
export async function importWithPeers<Module>(load: () => Promise<Module>): Promise<Module> {
  try {
    return await load();
  } catch (cause) {
    const [, name] = MISSING.exec(cause instanceof Error ? cause.message : '') ?? [];
    if (name === undefined) throw cause;
    throw new UnsupportedError(
      `savestate/langgraph needs the package ${name}. Install it: npm install @langchain/langgraph @langchain/core @langchain/langgraph-checkpoint`,
      { cause },
    );
  }
}
