import { z } from 'zod';

/** The id of a checkpoint; where one is asked for, its beginning will do. */
export const checkpointId = z.string().min(1).describe('A checkpoint id, or a unique prefix of one');
/** A session's name. */
export const sessionId = z.string().min(1).max(512);
/** The name of a branch or a tag. */
export const name = z.string().min(1).max(512);
/** A flag in a query. */
export const flag = z.enum(['true', 'false']).transform((text) => text === 'true');
/** A count in a query, within bounds. */
export const countIn = (min: number, max: number) => z.coerce.number().int().min(min).max(max);
/** Names in a query, with commas in between. */
export const listIn = (max: number) =>
  z.string().transform((text, context) => {
    const items = text.split(',').filter((item) => item !== '');
    if (items.length <= max) return items;
    context.addIssue({ code: 'custom', message: `must name at most ${max}; found ${items.length}` });
    return z.NEVER;
  });

const cursorLike = (pattern: RegExp) =>
  z
    .string()
    .regex(pattern, 'it must be the "next" of the page before')
    .optional()
    .describe('The `next` of the page before');
/** Where a list goes on: after a checkpoint, or at a place in it. */
export const idCursor = cursorLike(/^chk_\w{22}$/);
export const placeCursor = cursorLike(/^\d{1,15}$/);

/** One page of a list. */
export const page = <Item extends z.ZodType>(item: Item) =>
  z.strictObject({ items: z.array(item), next: z.string().optional().describe('Absent on the last page') });

/** A branch and where it is. */
export const branch = z.strictObject({
  name: z.string(),
  headId: z.string(),
  isAnswer: z.boolean().describe('It only holds the answer to a request'),
});
