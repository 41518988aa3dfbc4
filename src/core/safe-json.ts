/** What JSON leaves as it is although a terminal obeys it, or it turns the direction of a text around, or ends a line. */
const HIDDEN = /[\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/**
 * A value as JSON that may be shown anywhere: control and bidi characters are escapes, which mean the same to whoever reads it. For
 * everything that is written for people and other programs; stored bytes and digests are of JSON as it is.
 */
export function formatSafeJson(value: unknown, indent?: number): string {
  return JSON.stringify(value, undefined, indent).replaceAll(
    HIDDEN,
    (found) => `\\u${found.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
