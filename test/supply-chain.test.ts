import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, expect, test } from 'vitest';
import { builtFolder } from './support/on-demand.ts';

const ROOT = resolve(import.meta.dirname, '..');
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8');
const MANIFEST = JSON.parse(read('package.json')) as Record<string, Record<string, string> | undefined>;

type Component = {
  readonly name: string;
  readonly version: string;
  readonly licenses: readonly { readonly license?: { readonly id: string } }[];
  readonly hashes: readonly { readonly alg: string; readonly content: string }[];
  readonly properties: readonly { readonly value: string }[];
};

const { components, ...bom } = JSON.parse(
  execFileSync(process.execPath, ['scripts/sbom.mjs'], { cwd: ROOT, encoding: 'utf8' }),
) as { readonly components: readonly Component[] };

/** Licences that let anybody use, change and pass on what is in the package, with their notice. */
const ALLOWED = ['MIT', 'ISC', 'BSD-2-Clause', 'BSD-3-Clause', 'Apache-2.0', '0BSD'];

describe('the list of what comes from others', () => {
  test('is CycloneDX and has what is installed, and what is built into the studio', () => {
    expect(bom).toMatchObject({
      bomFormat: 'CycloneDX',
      specVersion: '1.6',
      metadata: { component: { name: 'savestate' } },
    });
    const names = components.map(({ name }) => name);
    expect(names).toEqual(
      expect.arrayContaining(Object.keys({ ...MANIFEST.dependencies, ...MANIFEST.optionalDependencies })),
    );
    expect(names).toEqual(
      expect.arrayContaining(['react', 'react-dom', 'scheduler', 'uplot', '@codemirror/view', '@lezer/common']),
    );
    expect(names).not.toContain('vitest');
  });

  test('names of each the licence, which is an open one, and the digest', () => {
    const odd = components.filter(({ licenses }) => !ALLOWED.includes(licenses[0]?.license?.id ?? ''));
    expect(odd).toEqual([]);
    for (const { name, hashes } of components)
      expect(hashes[0], name).toMatchObject({ alg: 'SHA-512', content: /^[0-9a-f]{128}$/ });
  });

  test('says the licence that the package itself has', () => {
    const installed = components.filter(({ name }) => existsSync(join(ROOT, 'node_modules', name, 'package.json')));
    expect(installed.length).toBeGreaterThan(15);
    for (const { name, version, licenses } of installed) {
      const own = JSON.parse(read(`node_modules/${name}/package.json`)) as { license?: string; version: string };
      if (own.version === version) expect(licenses[0]?.license?.id, name).toBe(own.license);
    }
  });

  test('the notices of what is built in are in the package', () => {
    const notices = readFileSync(join(builtFolder(), 'studio/licenses.md'), 'utf8');
    const isBuiltIn = ({ properties }: Component) => properties[0]?.value === 'built into the studio';
    // What only types or tests import is in no file of the studio.
    for (const name of ['react', 'react-dom', 'scheduler', 'uplot', '@codemirror/view']) {
      expect(components.filter(isBuiltIn).map((component) => component.name)).toContain(name);
      expect(notices).toContain(`## ${name} `);
    }
  });
});

test('every dependency has a record of why it is there', () => {
  const records = readdirSync(join(ROOT, 'docs/decisions'))
    .map((file) => read(`docs/decisions/${file}`))
    .join('\n');
  const names = Object.keys({ ...MANIFEST.dependencies, ...MANIFEST.optionalDependencies });
  expect(names.filter((name) => !records.includes(name))).toEqual([]);
});

test('installing the package runs no script of ours', () => {
  const scripts = Object.keys(MANIFEST.scripts ?? {});
  expect(scripts.filter((name) => /^(pre|post)?(install|prepare)$|^prepublish$/.test(name))).toEqual([]);
});

test('the lock file names no address: where packages come from is for each installation to say', () => {
  const lock = read('package-lock.json');
  expect(lock).not.toMatch(
    /"resolved"|https?:\/\/(?!opencollective|github\.com\/sponsors|[\w.-]*(?:patreon|tidelift|feross|ko-fi))[^"]*\.tgz/,
  );
  const { packages } = JSON.parse(lock) as { packages: Record<string, { integrity?: string; link?: boolean }> };
  const unsealed = Object.entries(packages).filter(([path, { integrity }]) => path !== '' && integrity === undefined);
  expect(unsealed.map(([path]) => path)).toEqual([]);
});

test('a release is built by the workflow, with its provenance and the list of what is in it', () => {
  const workflow = read('.github/workflows/release.yml');
  expect(workflow).toMatch(/id-token: write/);
  expect(workflow).toMatch(/npm publish --provenance/);
  expect(workflow).toMatch(/scripts\/sbom\.mjs/);
  expect(workflow).not.toMatch(/registry|_authToken/i);
});
