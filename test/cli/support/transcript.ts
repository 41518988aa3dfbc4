import { execFile } from 'node:child_process';
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { cleanEnv, DIST, MAIN } from './cli.ts';
import { newFolder } from './folder.ts';

/** One line that is typed, and what is printed then. */
export type TypedLine = { readonly line: number; readonly command: string; readonly output: string };

/** A part of a walk-through: a file to write, or lines to type. */
export type Part =
  | { readonly kind: 'file'; readonly name: string; readonly text: string }
  | { readonly kind: 'typed'; readonly lines: readonly TypedLine[] };

/** Reads a walk-through: blocks of JavaScript and YAML begin with a comment that names their file, console blocks have `$ ` before what is typed. */
export function readTranscript(path: string): Part[] {
  const text = readFileSync(path, 'utf8');
  return [...text.matchAll(/^```(js|yaml|console)\n([\s\S]*?)^```/gm)].map(
    ([block, kind, body = ''], at, all): Part => {
      const before = text.slice(0, all[at] === undefined ? 0 : text.indexOf(block));
      if (kind !== 'console') return { kind: 'file', name: /^(?:\/\/|#) (\S+)/.exec(body)?.[1] ?? '', text: body };
      return { kind: 'typed', lines: readLines(body, before.split('\n').length + 1) };
    },
  );
}

function readLines(body: string, firstLine: number): TypedLine[] {
  const lines: { line: number; command: string; output: string }[] = [];
  for (const [at, text] of body.split('\n').entries()) {
    const last = lines.at(-1);
    if (text.startsWith('$ ')) lines.push({ line: firstLine + at, command: text.slice(2), output: '' });
    else if (last !== undefined) last.output += `${text}\n`;
  }
  return lines.map((line) => ({ ...line, output: line.output.trimEnd() }));
}

/** A fresh folder in which `savestate` is the built program, for a shell and for programs that import it. */
export function createHome(): string {
  const folder = newFolder();
  mkdirSync(join(folder, 'node_modules'));
  symlinkSync(dirname(DIST), join(folder, 'node_modules', 'savestate'));
  mkdirSync(join(folder, '.bin'));
  writeFileSync(join(folder, '.bin', 'savestate'), `#!/bin/sh\nexec "${process.execPath}" "${MAIN}" "$@"\n`, {
    mode: 0o755,
  });
  return folder;
}

/** Types a line into a shell; answers everything that is printed. */
export function type(folder: string, command: string): Promise<string> {
  const env = cleanEnv(folder);
  return new Promise((resolve) => {
    execFile(
      'bash',
      ['-c', `exec 2>&1\n${command}`],
      { cwd: folder, env: { ...env, PATH: `${join(folder, '.bin')}:${dirname(process.execPath)}:${env.PATH}` } },
      (_, stdout) => resolve(stdout.trimEnd()),
    );
  });
}

/** What differs from one run to the next, or with the form of states: ids, times, sizes of files, numbers of chunks, folders. */
export function normalise(text: string, folder = ''): string {
  return (folder === '' ? text : text.replaceAll(folder, '/home/ann/chat'))
    .replaceAll(/chk_[0-9a-z]{22}/g, 'chk_…')
    .replaceAll(/\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+Z)?/g, '<time>')
    .replaceAll(/^.*: line \d+: +\d+ Killed.*$/gm, 'Killed')
    .replaceAll(/\d+ chunks?/g, '<chunks>')
    .replaceAll(/\d+(\.\d)? (B|kB|MB) freed/g, '<size> freed')
    .replaceAll(/\S+ kB/g, '<size>');
}
