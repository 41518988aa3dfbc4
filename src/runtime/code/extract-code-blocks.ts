import type { CodeBlock } from './code-executor.ts';

type Fence = { readonly indent: string; readonly mark: string; readonly language: string; readonly lines: string[] };

const FENCE = /^([ \t]*)(`{3,}|~{3,})(.*)$/;

/** How much deeper than its opening fence a closing one may stand, as in CommonMark. */
const CLOSING_SLACK_CHARS = 3;

/**
 * Finds the fenced code blocks of a message that name a language, in order. What is inside a block without a language is not
 * looked at, and a block whose end is missing is not returned: a message that was cut off must not run half a command.
 */
export function extractCodeBlocks(markdown: string): CodeBlock[] {
  const blocks: CodeBlock[] = [];
  let open: Fence | undefined;
  for (const line of markdown.split(/\r\n|\n|\r/)) {
    if (open === undefined) open = openFence(line);
    else if (!isClosing(line, open)) open.lines.push(dedent(line, open.indent.length));
    else {
      const code = open.lines.join('\n');
      if (open.language !== '' && code.trim() !== '') blocks.push({ language: open.language, code });
      open = undefined;
    }
  }
  return blocks;
}

function openFence(line: string): Fence | undefined {
  const [, indent = '', mark = '', label = ''] = FENCE.exec(line) ?? [];
  if (mark === '') return undefined;
  if (mark.startsWith('`') && label.includes('`')) return undefined; // that is code within a line
  return { indent, mark, language: languageOf(label), lines: [] };
}

/** The first word of what follows the fence: `python` of `python title="sum.py"`, `{python}` or `{.python #id}`. */
function languageOf(label: string): string {
  const [word = ''] = label
    .trim()
    .replace(/^\{\s*\.?/, '')
    .split(/[\s,;:{}]/);
  return word.toLowerCase();
}

function isClosing(line: string, { indent, mark }: Fence): boolean {
  const [, closingIndent = '', closing = '', rest = ''] = FENCE.exec(line) ?? [];
  if (closing === '' || rest.trim() !== '') return false;
  return (
    closing[0] === mark[0] &&
    closing.length >= mark.length &&
    closingIndent.length <= indent.length + CLOSING_SLACK_CHARS
  );
}

function dedent(line: string, chars: number): string {
  let from = 0;
  while (from < chars && (line[from] === ' ' || line[from] === '\t')) from++;
  return line.slice(from);
}
