import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { extractCodeBlocks } from './extract-code-blocks.ts';

const lines = (...parts: string[]) => parts.join('\n');

describe('[code.1] code blocks of a message', () => {
  test('are found in order, with their language in lower case', () => {
    const text = lines('First:', '```Python', 'print(1)', '```', 'then', '~~~sh', 'ls', '~~~', 'done');
    expect(extractCodeBlocks(text)).toEqual([
      { language: 'python', code: 'print(1)' },
      { language: 'sh', code: 'ls' },
    ]);
  });

  test.each([
    ['python title="sum.py"', 'python'],
    [' python ', 'python'],
    ['python {linenos=true}', 'python'],
    ['{python}', 'python'],
    ['{.python #id}', 'python'],
    ['js:main.js', 'js'],
    ['c++', 'c++'],
    ['javascript,runnable', 'javascript'],
  ])('the label %j names %s', (label, language) => {
    expect(extractCodeBlocks(`\`\`\`${label}\nx\n\`\`\``)).toEqual([{ language, code: 'x' }]);
  });

  test('a longer fence holds shorter ones, and the other kind', () => {
    const inner = lines('```sh', 'rm x', '```', '~~~sh', 'rm y', '~~~');
    expect(extractCodeBlocks(lines('````markdown', inner, '````'))).toEqual([{ language: 'markdown', code: inner }]);
    expect(extractCodeBlocks(lines('~~~markdown', '```sh', 'rm x', '```', '~~~'))).toHaveLength(1);
    expect(extractCodeBlocks(lines('```sh', 'ls', '`````'))).toEqual([{ language: 'sh', code: 'ls' }]);
  });

  test('an indented block loses the indent of its fence, and no more', () => {
    const text = lines('1. Run', '', '   ```python', '   if x:', '       go()', '  odd', '', '   ```');
    expect(extractCodeBlocks(text)).toEqual([{ language: 'python', code: lines('if x:', '    go()', 'odd', '') }]);
  });

  test('line ends of other systems are read', () => {
    expect(extractCodeBlocks('```sh\r\na\r\nb\r\n```\r\n')).toEqual([{ language: 'sh', code: 'a\nb' }]);
    expect(extractCodeBlocks('```sh\ra\r```')).toEqual([{ language: 'sh', code: 'a' }]);
  });

  test('what has no language, no content or no end is not run', () => {
    expect(extractCodeBlocks(lines('```', 'rm -rf x', '```'))).toEqual([]);
    expect(extractCodeBlocks(lines('```', '~~~sh', 'rm', '~~~', '```'))).toEqual([]);
    expect(extractCodeBlocks(lines('```sh', '  ', '```'))).toEqual([]);
    expect(extractCodeBlocks(lines('```sh', 'rm -rf build'))).toEqual([]);
    expect(extractCodeBlocks('Use ```sh rm x``` inline, or `sh`.')).toEqual([]);
    expect(extractCodeBlocks(lines('```sh', 'ls', '``` x'))).toEqual([]);
    expect(extractCodeBlocks('')).toEqual([]);
  });

  test('any code comes back as it was, whatever is around it', () => {
    const line = fc.string().filter((text) => !/[\r\n]/.test(text));
    fc.assert(
      fc.property(fc.array(line, { minLength: 1 }), fc.constantFrom('`', '~'), (code, mark) => {
        const longest = Math.max(0, ...[...code.join('\n').matchAll(/[`~]+/g)].map(([run]) => run.length));
        const fence = mark.repeat(Math.max(3, longest + 1));
        const found = extractCodeBlocks(lines('Text.', `${fence}sh`, ...code, fence, 'More.'));
        expect(found).toEqual(code.join('').trim() === '' ? [] : [{ language: 'sh', code: code.join('\n') }]);
      }),
    );
  });

  test('hostile messages take time in proportion to their length', () => {
    // In proportion to the square of it, this would take hours, and not end within the limit of a test.
    const hostile = `${' '.repeat(1_000_000)}${'`'.repeat(1_000_000)}\n`.repeat(4);
    expect(extractCodeBlocks(hostile)).toEqual([]);
  });
});
