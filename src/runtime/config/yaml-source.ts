import { type Document, isMap, isNode, isScalar, LineCounter, type Node, parseDocument } from 'yaml';
import { formatPath, type KeyPath, type Problem } from './problem.ts';

/** A document whose problems can be placed. */
export interface ProblemSource {
  /** The data, as plain values. */
  readonly data: unknown;
  /** What the text itself has wrong, before anyone looked at its meaning. */
  readonly problems: readonly Problem[];
  /** Describes a problem with the value at a path, or with the key itself. */
  place(path: KeyPath, message: string, options?: { readonly key?: string; readonly suggestion?: string }): Problem;
}

/** Data that was written in code: problems have a path and no line. */
export function dataSource(data: unknown): ProblemSource {
  return {
    data,
    problems: [],
    place: (path, message, { key, suggestion } = {}) => ({
      path: formatPath(key === undefined ? path : [...path, key]),
      message,
      ...(suggestion !== undefined && { suggestion }),
    }),
  };
}

/** Reads YAML; problems found in its data later can be placed by line and column. */
export function yamlSource(text: string): ProblemSource {
  const lineCounter = new LineCounter();
  const document = parseDocument(text, { lineCounter, prettyErrors: false });
  const problems: Problem[] = document.errors.map(({ message, pos }) => {
    const { line, col } = lineCounter.linePos(pos[0]);
    return { path: '', message, line, column: col };
  });
  const read = (): unknown => {
    try {
      return problems.length === 0 ? document.toJS() : undefined;
    } catch (error) {
      problems.push({ path: '', message: String(error), line: 1, column: 1 }); // too many aliases
      return undefined;
    }
  };
  return {
    data: read(),
    problems,
    place(path, message, { key, suggestion } = {}) {
      const { line, col } = lineCounter.linePos(offsetOf(document, path, key));
      const at = formatPath(key === undefined ? path : [...path, key]);
      return { path: at, message, line, column: col, ...(suggestion !== undefined && { suggestion }) };
    },
  };
}

/** Where a part of the text begins; of what is missing, where it should have been. */
function offsetOf(document: Document, path: KeyPath, key: string | undefined): number {
  for (let depth = path.length; depth >= 0; depth--) {
    const node: unknown = depth === 0 ? document.contents : document.getIn(path.slice(0, depth), true);
    if (!isNode(node)) continue;
    const found = depth === path.length && key !== undefined ? keyOf(node, key) : undefined;
    return (found ?? node).range?.[0] ?? 0;
  }
  return 0;
}

function keyOf(node: Node, key: string): Node | undefined {
  if (!isMap(node)) return undefined;
  const pair = node.items.find((item) => isScalar(item.key) && String(item.key.value) === key);
  return isNode(pair?.key) ? pair.key : undefined;
}
