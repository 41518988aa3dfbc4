// Writes docs/api from the declarations of the built package: one page an entry, one section a public name with its comment.
//   node scripts/api-docs.mjs           writes the pages (npm run docs:api builds first)
//   node scripts/api-docs.mjs --check   ends with 1 if a page is not what it would write
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';

const ROOT = resolve(import.meta.dirname, '..');
const PAGES = join(ROOT, 'docs/api');
const DECLARED = /^(?:export )?(?:declare )?(?:abstract )?(class|function|const|type|interface) (\w+)/gm;
const PASSED_ON = /^export (type )?\{([^}]*)\}(?: from '(\.[^']+)')?;/gm;
const NAMED_IMPORT = /^import (type )?\{([^}]*)\} from '(\.[^']+)';/gm;
const COMMENT = /\/\*\*(?:(?!\*\/)[\s\S])*\*\/\s*$/;

const texts = new Map();

function textOf(file) {
  if (!texts.has(file)) texts.set(file, readFileSync(file, 'utf8'));
  return texts.get(file);
}

const besides = (file, specifier) => join(dirname(file), specifier.replace(/\.[jt]s$/, '.d.ts'));

/** `A, type B as C` → [['A', 'A'], ['B', 'C']]: what it is called there, and here. */
function parseNames(list) {
  return list
    .split(',')
    .map((item) => item.trim().replace(/^type /, ''))
    .filter((item) => item !== '')
    .map((item) => item.split(' as '))
    .map(([inner, outer = inner]) => [inner, outer]);
}

/** Where a statement ends: at its semicolon, or at the brace that closes a class, an interface. Skips comments and strings. */
function endOf(text, from, isBlock) {
  let depth = 0;
  const tokens = /\/\*[\s\S]*?\*\/|\/\/.*|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`(?:\\.|[^`\\])*`|[()[\]{};]/g;
  tokens.lastIndex = from;
  for (let token = tokens.exec(text); token !== null; token = tokens.exec(text)) {
    if ('([{'.includes(token[0])) depth++;
    if (')]}'.includes(token[0])) depth--;
    if (depth === 0 && token[0] === (isBlock ? '}' : ';')) return tokens.lastIndex;
  }
  throw new Error(`A declaration does not end: ${text.slice(from, from + 80)}`);
}

/** What a file itself declares: name → kind, comment, code (all overloads of a function). */
function declarationsOf(file) {
  const [text, found] = [textOf(file), new Map()];
  for (const match of text.matchAll(DECLARED)) {
    const [, kind, name] = match;
    const code = text.slice(match.index, endOf(text, match.index, kind === 'class' || kind === 'interface'));
    const [comment] = COMMENT.exec(text.slice(0, match.index)) ?? [''];
    const before = found.get(name);
    found.set(name, {
      file,
      kind,
      name,
      code: before ? `${before.code}\n${code}` : code,
      comment: before?.comment || comment,
    });
  }
  return found;
}

/** The declaration behind a name that a file uses or exports, through all files that pass it on; undefined if it is not ours. */
function declarationOf(file, name) {
  const own = declarationsOf(file).get(name);
  if (own !== undefined) return own;
  for (const pattern of [PASSED_ON, NAMED_IMPORT])
    for (const [, , list, from] of textOf(file).matchAll(pattern)) {
      const [inner] = parseNames(list).find(([, outer]) => outer === name) ?? [];
      if (inner !== undefined && from !== undefined) return declarationOf(besides(file, from), inner);
    }
  return undefined;
}

/** The types that declarations name without exporting them, and what those name in turn. What has a page of its own is left out. */
function namedBy(declarations, published) {
  const found = new Map(declarations.map((declaration) => [declaration.name, declaration]));
  for (const { file, code } of found.values())
    for (const [name] of signature(code)
      .replace(/\/\*[\s\S]*?\*\//g, '')
      .matchAll(/\b[A-Z]\w+/g)) {
      const named = found.has(name) ? undefined : declarationOf(file, name);
      if (named !== undefined && !isValue(named) && !published.has(`${named.file} ${named.name}`))
        found.set(name, { ...named, name });
    }
  return [...found.values()].slice(declarations.length).sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** What an entry exports, by name: its declaration, and whether only its type is exported. */
function exportsOf(file) {
  const lists = [...textOf(file).matchAll(PASSED_ON)].flatMap(([, type, list]) =>
    list.split(',').map((item) => ({ item, isType: type !== undefined || item.trim().startsWith('type ') })),
  );
  const names = lists.flatMap(({ item, isType }) => parseNames(item).map(([, name]) => ({ name, isType })));
  return names
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .map(({ name, isType }) => {
      const declaration = declarationOf(file, name);
      if (declaration === undefined) throw new Error(`${file} exports ${name}, and no declaration of it was found.`);
      return { ...declaration, given: declaration.name, name, isType };
    });
}

/** A comment as Markdown: without its stars. */
function prose(comment) {
  const lines = comment.replace(/^\/\*\*|\*\/\s*$/g, '').split('\n');
  return lines
    .map((line) => line.replace(/^\s*\* ?/, '').trimEnd())
    .join('\n')
    .trim();
}

/** A declaration as a reader writes it: no `export declare`, no private parts. */
function signature(code) {
  return code
    .replace(/^(?:export )?(?:declare )?/gm, '')
    .replace(/import\("[^"]+"\)\./g, '')
    .replace(/^ {4}(?:#private|private [^;]*);\n/gm, '')
    .replace(/^( {4})+/gm, (spaces) => ' '.repeat(spaces.length / 2));
}

const isValue = ({ kind, isType }) => !isType && kind !== 'type' && kind !== 'interface';

function section({ name, comment, code }) {
  const sentences = prose(comment);
  return `### ${name}\n\n${sentences === '' ? '' : `${sentences}\n\n`}\`\`\`typescript\n${signature(code)}\n\`\`\`\n`;
}

function page({ entry, declarations }, published) {
  const parts = [
    ['Values', declarations.filter(isValue)],
    ['Types', declarations.filter((declaration) => !isValue(declaration))],
    ['Types that these name, and that are not exported', namedBy(declarations, published)],
  ].filter(([, some]) => some.length > 0);
  const body = parts.map(([title, some]) => `## ${title}\n\n${some.map(section).join('\n')}`);
  return `# \`${entry}\`\n\n${NOTE}\n\n${body.join('\n')}`;
}

const NOTE =
  'After this page you know what each public name of this entry is, and how it is called. It is written by `npm run docs:api` from the comments in the source: change them there.';

function index(pages) {
  const rows = pages.map(({ entry, file, declarations }) => {
    const names = declarations.filter(isValue).map(({ name }) => `[\`${name}\`](${file}#${name.toLowerCase()})`);
    return `| [\`${entry}\`](${file}) | ${names.join(', ')} | ${declarations.length - names.length} |`;
  });
  return `# API\n\n${NOTE.replace('this entry', 'each entry')}\n\n| entry | values | types |\n| --- | --- | --- |\n${rows.join('\n')}\n`;
}

/** File name → text, for all pages. */
function render() {
  const { exports: entries } = JSON.parse(textOf(join(ROOT, 'package.json')));
  const pages = Object.entries(entries)
    .filter(([, to]) => typeof to !== 'string')
    .map(([path, { types }]) => {
      const file = join(ROOT, types);
      const declarations = exportsOf(file);
      const silent = declarations.filter(({ comment }) => prose(comment) === '').map(({ name }) => name);
      if (silent.length > 0) throw new Error(`${path} exports names without a comment: ${silent.join(', ')}`);
      return { entry: path.replace('.', 'savestate'), file: `${path.slice(2) || 'savestate'}.md`, declarations };
    });
  const published = new Set(pages.flatMap((each) => each.declarations).map(({ file, given }) => `${file} ${given}`));
  return new Map([['README.md', index(pages)], ...pages.map((each) => [each.file, page(each, published)])]);
}

function stale(pages) {
  const written = new Map(readdirSync(PAGES).map((name) => [name, readFileSync(join(PAGES, name), 'utf8')]));
  return [...new Set([...pages.keys(), ...written.keys()])].filter((name) => pages.get(name) !== written.get(name));
}

const pages = render();
if (process.argv.includes('--check')) {
  const names = stale(pages);
  if (names.length > 0)
    console.log(`docs/api is not what the comments say: ${names.join(', ')}. Run npm run docs:api.`);
  process.exitCode = names.length > 0 ? 1 : 0;
} else {
  rmSync(PAGES, { recursive: true, force: true });
  mkdirSync(PAGES, { recursive: true });
  for (const [name, text] of pages) writeFileSync(join(PAGES, name), text);
}
