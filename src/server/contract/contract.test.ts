import { readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { toReference } from '../../../test/support/route-reference.ts';
import { ERROR_OUTCOMES } from '../../core/error-outcomes.ts';
import { toOpenApi } from './open-api.ts';
import type { Route } from './route.ts';
import { ROUTES } from './routes.ts';

const PAGE = new URL('../../../docs/SERVER.md', import.meta.url);
const MARK = 'A field with `?` may be absent.\n\n';

describe('the table of routes', () => {
  test('is what docs/SERVER.md says; UPDATE_REFERENCE=1 writes it', () => {
    const page = readFileSync(PAGE, 'utf8');
    const [head = ''] = page.split(MARK);
    const wanted = `${head}${MARK}${toReference()}`;
    if (process.env.UPDATE_REFERENCE === '1') writeFileSync(PAGE, wanted);
    else expect(page).toBe(wanted);
  });

  test('the codes and statuses of errors are those of docs/SERVER.md', () => {
    const page = readFileSync(PAGE, 'utf8');
    for (const [code, { httpStatus, exitCode }] of Object.entries(ERROR_OUTCOMES))
      expect(page).toMatch(
        new RegExp(`\\| [^|\\n]*\`${code}\`[^|\\n]* \\| ${httpStatus}\\b[^|\\n]*\\| ${exitCode} \\|`),
      );
  });

  test('has the parameters of its paths, and objects that take no unknown fields', () => {
    for (const [key, { params = {}, body, reply }] of Object.entries(ROUTES) as [string, Route][]) {
      const named = [...key.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
      expect([key, Object.keys(params)]).toEqual([key, named]);
      for (const schema of [body, reply])
        if (schema instanceof z.ZodType)
          expect(z.toJSONSchema(schema, { unrepresentable: 'any', io: 'input' })).toMatchObject({
            additionalProperties: false,
          });
    }
  });

  test('[session.3] has no cursor that takes what is the end of no page', () => {
    const cursors = (Object.values(ROUTES) as Route[]).flatMap(({ query }) => query?.cursor ?? []);
    expect(cursors).toHaveLength(7);
    for (const cursor of cursors)
      for (const text of ['', 'zzz', '-1', '1.5', 'chk_0'])
        expect([text, cursor.safeParse(text).success]).toEqual([text, false]);
  });

  test('is an OpenAPI 3.1 document: every operation has an id of its own, its parameters and its replies', () => {
    const document = toOpenApi('1.0.0') as {
      openapi: string;
      paths: Record<string, Record<string, { operationId: string; responses: Record<string, unknown> }>>;
    };
    const operations = Object.values(document.paths).flatMap((path) => Object.values(path));
    expect(document.openapi).toBe('3.1.0');
    expect(new Set(operations.map(({ operationId }) => operationId)).size).toBe(Object.keys(ROUTES).length);
    for (const { responses } of operations)
      expect(Object.keys(responses)).toEqual(expect.arrayContaining(['200', '400', '401']));
    expect(JSON.stringify(document)).not.toContain('$defs');
  });
});
