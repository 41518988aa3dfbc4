// Prints what the changelog says about a version: npm run --silent release:notes [-- 0.2.0]; without a version, that of package.json.
import { readFileSync } from 'node:fs';

const read = (name) => readFileSync(new URL(`../${name}`, import.meta.url), 'utf8');
const version = process.argv[2] ?? JSON.parse(read('package.json')).version;
const sections = read('CHANGELOG.md').split(/^## /m).slice(1);
const section = sections.find((text) => text.startsWith(`[${version}]`));
if (section === undefined) {
  const found = sections.map((text) => /^\[([^\]]+)\]/.exec(text)?.[1]).join(', ');
  console.error(
    `CHANGELOG.md has no section for ${version}; it has: ${found}. Move "Unreleased" under the version first.`,
  );
  process.exit(1);
}
console.log(section.slice(section.indexOf('\n')).trim());
