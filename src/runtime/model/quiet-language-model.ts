import type { ModelRequest } from './chat-model.ts';
import type { LanguageModel } from './language-model.ts';
import { type LanguageModelResult, type LanguageModelV3, StreamContent } from './stream-content.ts';

/** What to do with text as it comes, and with warnings; and which tools are to be called. */
export type QuietOptions = {
  readonly toolChoice: ModelRequest['toolChoice'];
  readonly onText: ((delta: string) => void) | undefined;
  readonly onWarning: (warning: string) => void;
};

/**
 * A model of any version that hands its warnings to us. The AI SDK would print them, and a library does not print.
 * Streaming happens in here, so that both kinds of reply go the same way from then on.
 */
export function quietLanguageModel(model: LanguageModel, options: QuietOptions): LanguageModelV3 {
  const { toolChoice, onText, onWarning } = options;
  const inner = model as LanguageModelV3;
  return {
    // Version 4 has the calls and replies of version 3 as far as they are touched in here, but other files in prompts.
    specificationVersion: (model.specificationVersion === 'v4' ? 'v4' : 'v3') as 'v3',
    provider: model.provider,
    modelId: model.modelId,
    supportedUrls: model.supportedUrls,
    async doGenerate(given) {
      // Told to the AI SDK it would make an error of a reply that calls no tool.
      const call = toolChoice === undefined || !given.tools ? given : { ...given, toolChoice: { type: toolChoice } };
      const { warnings, ...result } = await (onText === undefined
        ? inner.doGenerate(call)
        : stream(inner, call, onText));
      for (const warning of warnings) onWarning(describeWarning(warning));
      return { ...result, warnings: [] };
    },
    doStream: (call) => inner.doStream(call),
  };
}

async function stream(
  model: LanguageModelV3,
  call: Parameters<LanguageModelV3['doGenerate']>[0],
  onText: (delta: string) => void,
): Promise<LanguageModelResult> {
  const { stream: parts } = await model.doStream(call);
  const content = new StreamContent(onText);
  for await (const part of parts) content.add(part);
  return content.finish();
}

function describeWarning(warning: LanguageModelResult['warnings'][number]): string {
  if ('message' in warning) return warning.message;
  const what = `The model does not support ${warning.feature}.`;
  return warning.details === undefined ? what : `${what} ${warning.details}`;
}
