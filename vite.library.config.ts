import { readFileSync } from 'node:fs';
import { isAbsolute, join } from 'node:path';
import { defineConfig } from 'vite';

type Manifest = {
  readonly bin: Record<string, string>;
  readonly exports: Record<string, string | Record<string, string>>;
};

const ROOT = import.meta.dirname;
const SOURCES = join(ROOT, 'src');
const { bin, exports } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as Manifest;

/** What becomes a part of our files: as packages in CommonJS that modules import, they took longer to load than all of ours. */
const INLINED: Readonly<Record<string, string>> = {
  commander: join(ROOT, 'node_modules/commander/index.js'),
  mutative: join(ROOT, 'node_modules/mutative/dist/mutative.esm.mjs'),
  yaml: join(ROOT, 'node_modules/yaml/browser/index.js'),
};

/** The modules that programs name: what the package exports, and the command line. */
const entries = Object.values(exports)
  .flatMap((entry) => (typeof entry === 'string' ? [] : Object.values(entry)))
  .concat(Object.values(bin))
  .flatMap((path) => /dist\/(.*)\.js$/.exec(path)?.[1] ?? []);

/** What a chunk has: these sources and all that they load at once, except what chunks before it have. */
const CHUNKS: readonly (readonly [name: string, sources: RegExp])[] = [
  ['client', /^server\/client\/index\.ts$/], // runs in browsers, too
  ['base', /^core\/(errors|error-outcomes|defined|safe-json|suggestion)\.ts$/], // all that --help needs of it
  ['core', /^(core\/(?!diff\/(?!align)|expression\/|index\.ts)|storage\/(index|wrap)\.ts$)/], // what a storage needs is small
  ['diff', /^core\/diff\//],
  ['expression', /^core\/expression\//],
  ['manager', /^(index|runtime\/config\/operation-name)\.ts$/],
  ['records', /^adapter\/langgraph\/record\/(graph-header|thread-session|write-record)\.ts$/],
  [
    'view',
    /^(view\/(checkpoint-output|label|list-sessions|messages|protecting|state-view|tail)|manager\/branch\/notes|server\/http\/package-folder)\.ts$/,
  ],
  ['program', /^cli\/run-main\.ts$/], // all that --help needs
  [
    'command',
    /^cli\/(base\/(context|open-storage|open-keyed)|state\/(checkpoint-text|graph|words)|revision\/resolve-revision|terminal\/terminal)\.ts$/,
  ],
];

function emitLicenses(this: { emitFile: (file: { type: 'asset'; fileName: string; source: string }) => string }): void {
  for (const name of Object.keys(INLINED)) {
    const source = readFileSync(join(ROOT, 'node_modules', name, 'LICENSE'), 'utf8');
    this.emitFile({ type: 'asset', fileName: `licenses/${name}.txt`, source });
  }
}

/** Commander loads what starts processes, and with it sockets, for programs whose subcommands are programs of their own. Ours are none. */
function withoutProcesses(code: string, id: string): string | undefined {
  if (!id.endsWith('commander/lib/command.js')) return undefined;
  const found = "require('node:child_process')";
  if (!code.includes(found)) throw new Error(`Commander no longer has ${found}: see whether it still loads it.`);
  return code.replace(found, '{}');
}

/** Text beyond ASCII is escaped: with one such character Node holds a whole file as 16-bit text, and reads it in three times the time. */
function toAscii(
  _: unknown,
  bundle: { readonly [file: string]: { type: 'asset' } | { type: 'chunk'; code: string } },
): void {
  for (const file of Object.values(bundle)) {
    if (file.type !== 'chunk') continue;
    if (/\braw`[^`]*[^\0-\x7f]/.test(file.code))
      throw new Error('A raw template must be ASCII: an escape is part of it.');
    file.code = file.code.replace(/[^\0-\x7f]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
  }
}

/**
 * Builds the library into few files, because each costs a program time when it starts: one for each entry and for each command, and what
 * they share. Nothing is minified, and a comment before each part names its source, so that stacks can be read.
 */
export default defineConfig({
  resolve: { alias: INLINED },
  plugins: [
    { name: 'licenses', generateBundle: emitLicenses },
    { name: 'ascii', generateBundle: toAscii },
    { name: 'without-processes', transform: withoutProcesses },
  ],
  build: {
    ssr: true,
    outDir: 'dist',
    target: 'es2023',
    minify: false,
    rolldownOptions: {
      input: Object.fromEntries(entries.map((entry) => [entry, join(SOURCES, `${entry}.ts`)])),
      external: (id) => !id.startsWith('.') && !isAbsolute(id) && !(id in INLINED),
      treeshake: { moduleSideEffects: false },
      checks: { ineffectiveDynamicImport: false, bundlerTimings: false },
      experimental: { attachDebugInfo: 'simple' },
      output: {
        comments: { jsdoc: false },
        entryFileNames: '[name].js',
        chunkFileNames: ({ facadeModuleId }) =>
          facadeModuleId?.startsWith(SOURCES)
            ? `${facadeModuleId.slice(SOURCES.length + 1).replace(/\.ts$/, '')}.js`
            : 'shared/[name].js',
        codeSplitting: {
          groups: CHUNKS.map(([name, sources], nth) => ({
            name,
            test: (id) => id.startsWith(SOURCES) && sources.test(id.slice(SOURCES.length + 1)),
            priority: CHUNKS.length - nth,
          })),
        },
      },
    },
  },
});
