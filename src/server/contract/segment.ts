/** A name as a part of a path. URLs lose the parts "." and "..": a "~" goes before them, and before what looks like that. */
export function encodeSegment(name: string): string {
  return encodeURIComponent(/^~*\.\.?$/.test(name) ? `~${name}` : name);
}

/** The name, from a part that was percent-decoded. */
export function decodeSegment(part: string): string {
  return /^~+\.\.?$/.test(part) ? part.slice(1) : part;
}
