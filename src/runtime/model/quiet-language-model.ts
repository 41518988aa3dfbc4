import type { ModelRequest } from './chat-model.ts';
import type { LanguageModel } from './language-model.ts';
import { describeWarning, toFinishReason, toUsage } from './language-model-version.ts';
import type { LanguageModelCall, LanguageModelResult, LanguageModelV2, LanguageModelV3 } from './sdk-model.ts';
import { StreamContent } from './stream-content.ts';

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
        ? generate(model, call)
        : stream(model, call, onText));
      for (const warning of warnings) onWarning(describeWarning(warning));
      return { ...result, warnings: [] };
    },
    doStream: (call) => (model as LanguageModelV3).doStream(call),
  };
}

async function generate(model: LanguageModel, call: LanguageModelCall): Promise<LanguageModelResult> {
  if (!isOld(model)) return (model as LanguageModelV3).doGenerate(call);
  const result = await model.doGenerate(call as Parameters<LanguageModelV2['doGenerate']>[0]);
  return {
    ...result,
    content: result.content as LanguageModelResult['content'],
    warnings: result.warnings as LanguageModelResult['warnings'],
    finishReason: toFinishReason(result.finishReason),
    usage: toUsage(result.usage),
  } as LanguageModelResult;
}

function isOld(model: LanguageModel): model is LanguageModelV2 {
  return model.specificationVersion === 'v2';
}

async function stream(
  model: LanguageModel,
  call: LanguageModelCall,
  onText: (delta: string) => void,
): Promise<LanguageModelResult> {
  const { stream: parts } = await (model as LanguageModelV3).doStream(call);
  const content = new StreamContent(onText);
  for await (const part of parts) content.add(part);
  return content.finish();
}
