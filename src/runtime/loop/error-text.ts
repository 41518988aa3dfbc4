/** What is kept of an error in states and reports. */
export type ErrorText = { readonly name: string; readonly message: string };

/** Errors may quote whole pages; a state keeps the beginning. */
const MAX_MESSAGE_CHARS = 2000;

/** The words of anything that was thrown. */
export function errorText(error: unknown): ErrorText {
  const { name, message } = error instanceof Error ? error : { name: 'Error', message: String(error) };
  return { name, message: message.slice(0, MAX_MESSAGE_CHARS) };
}
