import { z } from 'zod';
import { errorsOf, type Fields, type Route, splitKey } from '../../src/server/contract/route.ts';
import { ROUTES } from '../../src/server/contract/routes.ts';

/** The table of routes as the reference part of docs/SERVER.md. */
export function toReference(): string {
  return (Object.entries(ROUTES) as [string, Route][]).map(([key, route]) => describeRoute(key, route)).join('\n');
}

function describeRoute(key: string, route: Route): string {
  const { method, path } = splitKey(key);
  const { summary, params = {}, query = {}, body, reply, caching } = route;
  const errors = errorsOf(route);
  const rows = [
    ...listFields('path', params),
    ...listFields('query', query),
    ...(body === undefined ? [] : [`- body: ${shapeOf(body)}`]),
    ...(route.takes === 'lines' ? ['- body: the lines of an export'] : []),
    `- reply: ${typeof reply === 'string' ? STREAMS[reply] : shapeOf(reply)}${CACHING[caching ?? 'none']}`,
    ...(errors.length === 0 ? [] : [`- errors: ${errors.join(', ')}`]),
  ];
  return `### ${method} ${path}\n\n${summary}.\n\n${rows.join('\n')}\n`;
}

const STREAMS = { lines: 'lines of text (`application/x-ndjson`)', events: 'server-sent events' };
const CACHING = { none: '', tagged: '; has an ETag', immutable: '; never changes' };

function listFields(place: string, fields: Fields): string[] {
  return Object.entries(fields).map(([name, schema]) => {
    const { description } = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' });
    const isOptional = schema.safeParse(undefined).success;
    return `- ${place} \`${name}${isOptional ? '?' : ''}\`${description === undefined ? '' : `: ${description}`}`;
  });
}

/** The names of the fields; what is in a list in brackets. */
function shapeOf(schema: z.ZodType): string {
  const json = z.toJSONSchema(schema, { io: 'output', unrepresentable: 'any' }) as Shape;
  return `\`${fieldsOf(json)}\``;
}

type Shape = {
  readonly properties?: Readonly<Record<string, Shape>>;
  readonly required?: readonly string[];
  readonly items?: Shape;
};

function fieldsOf({ properties = {}, required = [] }: Shape): string {
  const fields = Object.entries(properties).map(([name, { items }]) => {
    const inside = items?.properties === undefined ? '' : ` ${fieldsOf(items)}`;
    return `${name}${required.includes(name) ? '' : '?'}${items === undefined ? '' : `[${inside.trim()}]`}`;
  });
  return `{ ${fields.join(', ')} }`;
}
