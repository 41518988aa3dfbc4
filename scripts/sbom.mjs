// Prints what is in the package and comes from others, as CycloneDX 1.6 JSON: what it depends on, and what is built into the studio.
//   node scripts/sbom.mjs > sbom.json
// `npm sbom` leaves out what is also somebody's peer, and what is built in.
import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

const ROOT = resolve(import.meta.dirname, '..');
const read = (path) => readFileSync(join(ROOT, path), 'utf8');
const { packages } = JSON.parse(read('package-lock.json'));

/** The package that `name` is for the one at `from`: the nearest folder that has it. */
function locate(from, name) {
  for (let folder = from; ; folder = folder.slice(0, Math.max(0, folder.lastIndexOf('node_modules/') - 1))) {
    const path = `${folder === '' ? '' : `${folder}/`}node_modules/${name}`;
    if (path in packages) return path;
    if (folder === '') return undefined;
  }
}

/** Packages that the studio imports: Vite builds them into its files. */
function builtIn() {
  const files = readdirSync(join(ROOT, 'src/studio'), { recursive: true }).filter((file) =>
    /(?<!\.test)\.tsx?$/.test(file),
  );
  const names = files.flatMap((file) =>
    [...read(join('src/studio', file)).matchAll(/(?:from|import\() ?'((?:@[\w.-]+\/)?[a-z][\w.-]*)[^']*'/g)].map(
      ([, name]) => name,
    ),
  );
  return [...new Set(names)].filter((name) => name in packages[''].devDependencies);
}

/** Every package that is needed, by its folder, with whether it is built in. Optional peers are the user's own choice. */
function findComponents() {
  const { dependencies = {}, optionalDependencies = {} } = packages[''];
  const roots = [
    ...Object.keys({ ...dependencies, ...optionalDependencies }).map((name) => ({ name, isBuiltIn: false })),
    ...builtIn().map((name) => ({ name, isBuiltIn: true })),
  ];
  const found = new Map();
  const visit = (from, { name, isBuiltIn }) => {
    const path = locate(from, name);
    if (path === undefined || found.has(path)) return;
    found.set(path, {
      ...packages[path],
      name: path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length),
      isBuiltIn,
    });
    const needed = { ...packages[path].dependencies, ...packages[path].optionalDependencies };
    for (const next of Object.keys(needed)) visit(path, { name: next, isBuiltIn });
  };
  for (const root of roots) visit('', root);
  return [...found.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
}

const purl = ({ name, version }) => `pkg:npm/${name.replace('@', '%40')}@${version}`;
const licences = (license) => [/[ ()]/.test(license) ? { expression: license } : { license: { id: license } }];

function toComponent({ name, version, license = 'NOASSERTION', integrity, optional, isBuiltIn }) {
  const [algorithm, hash] = integrity.split('-');
  return {
    type: 'library',
    'bom-ref': purl({ name, version }),
    name,
    version,
    scope: optional === true ? 'optional' : 'required',
    licenses: licences(license),
    purl: purl({ name, version }),
    hashes: [{ alg: algorithm.replace('sha', 'SHA-'), content: Buffer.from(hash, 'base64').toString('hex') }],
    properties: [{ name: 'savestate:place', value: isBuiltIn ? 'built into the studio' : 'installed beside it' }],
  };
}

const { name, version, license } = packages[''];
const bom = {
  bomFormat: 'CycloneDX',
  specVersion: '1.6',
  version: 1,
  metadata: {
    component: {
      type: 'library',
      'bom-ref': purl({ name, version }),
      name,
      version,
      licenses: licences(license),
      purl: purl({ name, version }),
    },
  },
  components: findComponents().map(toComponent),
};
process.stdout.write(`${JSON.stringify(bom, null, 2)}\n`);
