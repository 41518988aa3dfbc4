import { formatPath, type PathStep } from '../../core/path.ts';
import { placeOfMessage } from '../../manager/revision/item-messages.ts';
import { toJsonForm } from '../../view/json-form.ts';
import { readParts } from '../../view/messages.ts';

const MAX_TEXT_CHARS = 20_000;

/** A message as replies have it; what is large of it is cut. */
export function toMessage(raw: unknown, index: number, transcript: readonly PathStep[]) {
  const { speaker, text, calls, results } = readParts(raw);
  const [shown, ...others] = [text, ...calls.map(({ input }) => input), ...results.map(({ output }) => output)].map(
    cut,
  );
  return {
    index,
    speaker,
    text: String(shown?.value ?? ''),
    calls: calls.map((call, at) => ({ ...call, input: others[at]?.value })),
    results: results.map((result, at) => ({ ...result, output: others[calls.length + at]?.value })),
    isCut: [shown, ...others].some((each) => each?.isCut),
    path: formatPath(placeOfMessage(raw) ?? [...transcript, index]),
  };
}

/** A text or a value of moderate size; the beginning of one that is larger. */
function cut(value: unknown): { readonly value: unknown; readonly isCut: boolean } {
  const form = toJsonForm(value);
  const text = typeof form === 'string' ? form : (JSON.stringify(form) ?? '');
  return text.length > MAX_TEXT_CHARS
    ? { value: text.slice(0, MAX_TEXT_CHARS), isCut: true }
    : { value: form, isCut: false };
}
