import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { installWithout } from '../../../test/support/install-without.ts';
import { LATER } from '../../../test/support/later.ts';

test(
  '[langgraph.1] without the packages of LangChain the import says what to install; require and import are one module',
  LATER,
  () => {
    const folder = installWithout('@langchain');
    writeFileSync(
      join(folder, 'a.mjs'),
      `await import('savestate/langgraph').catch(({ code, message }) => console.log(code, message));`,
    );
    writeFileSync(
      join(folder, 'a.cjs'),
      `try { require('savestate/langgraph') } catch ({ code, message }) { console.log(code, message) }`,
    );
    for (const program of ['a.mjs', 'a.cjs'])
      expect(execFileSync(process.execPath, [program], { cwd: folder, encoding: 'utf8' })).toMatch(
        /^UNSUPPORTED savestate\/langgraph needs the package @langchain\/[-a-z]+\. Install it: npm install @langchain\/langgraph@1 @langchain\/core@1 @langchain\/langgraph-checkpoint@1\n$/,
      );
    const whole = installWithout('nothing');
    writeFileSync(
      join(whole, 'b.mjs'),
      `import { createRequire } from 'node:module';
    import * as imported from 'savestate/langgraph';
    const required = createRequire(import.meta.url)('savestate/langgraph');
    const names = Object.keys(required).filter((name) => required[name] === imported[name]);
    console.log(names.length, Object.keys(imported).length);`,
    );
    expect(execFileSync(process.execPath, ['b.mjs'], { cwd: whole, encoding: 'utf8' })).toBe('8 8\n');
  },
);
