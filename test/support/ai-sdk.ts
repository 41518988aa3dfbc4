import * as ai6 from 'ai';
import { convertArrayToReadableStream, MockLanguageModelV3 } from 'ai/test';
import * as ai7 from 'ai7';
import { MockLanguageModelV4 } from 'ai7/test';

/** What a scripted model says: a text, calls of tools, or an error. */
export type Line = string | Error | readonly { readonly id: string; readonly tool: string; readonly input: object }[];

type Model = InstanceType<typeof MockLanguageModelV3>;

const USAGE = {
  inputTokens: { total: 3, noCache: 3, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 5, text: 5, reasoning: 0 },
};

function contentOf(line: Exclude<Line, Error>) {
  return typeof line === 'string'
    ? [{ type: 'text' as const, text: line }]
    : line.map(({ id, tool, input }) => ({
        type: 'tool-call' as const,
        toolCallId: id,
        toolName: tool,
        input: JSON.stringify(input),
      }));
}

function finishOf(line: Line) {
  const unified = typeof line === 'string' ? ('stop' as const) : ('tool-calls' as const);
  return { finishReason: { unified, raw: undefined }, usage: USAGE };
}

/** The parts in which a line arrives. */
export function partsOf(line: Exclude<Line, Error>) {
  const said = contentOf(line).flatMap((part): object[] =>
    part.type === 'text'
      ? [
          { type: 'text-start' as const, id: 't' },
          ...part.text.split(/(?<= )/).map((delta) => ({ type: 'text-delta' as const, id: 't', delta })),
          { type: 'text-end' as const, id: 't' },
        ]
      : [part],
  );
  return [{ type: 'stream-start' as const, warnings: [] }, ...said, { type: 'finish' as const, ...finishOf(line) }];
}

/** How a scripted model answers: in order, each line once. */
function script(lines: readonly Line[]) {
  const left = [...lines];
  const next = () => {
    const line = left.shift();
    if (line === undefined) throw new Error('The script is over.');
    if (line instanceof Error) throw line;
    return line;
  };
  return {
    doGenerate: async () => {
      const line = next();
      return {
        content: contentOf(line),
        ...finishOf(line),
        warnings: [],
        request: { body: 'request' },
        response: { id: 'r', timestamp: new Date(7), modelId: 'mock', headers: { cookie: 'c' }, body: 'response' },
      };
    },
    doStream: async () => {
      const parts = partsOf(next());
      return { stream: convertArrayToReadableStream(parts) as never };
    },
  };
}

/** Both versions of the SDK with a model of their own; version 7 has the types of 6 here, as far as tests use them. */
export const SDKS: readonly [version: string, sdk: typeof ai6, scripted: (...lines: Line[]) => Model][] = [
  ['6', ai6, (...lines) => new MockLanguageModelV3(script(lines))],
  [
    '7',
    ai7 as unknown as typeof ai6,
    (...lines) => new MockLanguageModelV4(script(lines) as never) as unknown as Model,
  ],
];
