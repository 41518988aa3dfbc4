const LONG = 700;
const SHORT = 90;

/** The message that always has this number: every fifth one is long enough for a chunk of its own. */
export function messageOf(number) {
  const words = number % 5 === 4 ? LONG : SHORT;
  return { role: number % 2 === 0 ? 'user' : 'assistant', content: `m${number} `.repeat(words) };
}

/** The state after so many messages. */
export function conversationOf(count) {
  return { count, messages: Array.from({ length: count }, (_, i) => messageOf(i)) };
}

/** A state that says itself what must be in it. */
export function pickedState({ writer, sequence, picks }) {
  return { writer, sequence, picks, messages: picks.map(messageOf) };
}
