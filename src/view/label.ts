import { isLost } from '../core/errors.ts';
import type { Checkpoint } from '../core/record/checkpoint.ts';
import type { CheckpointManager } from '../manager/checkpoint-manager.ts';
import { joinItem, readItem } from '../manager/revision/item-messages.ts';
import { fieldsOf, listMessages } from '../manager/revision/transcript.ts';
import { formatValue } from './json-form.ts';
import { describeCall, readParts, roleOf } from './messages.ts';
import type { label, Shape } from './shapes.ts';

const MAX_CHARS = 160;
const MESSAGE = /^\$(\.(chat|fleet|channel_values))?\.messages\[\d+\]$/;
const ITEM = /^\$\.items(\[\d+\])$/;
const PENDING = /^\$\.chat\.pendingReply$/;

/** What a checkpoint brought: a message, or what a workflow did, if there is one, and the paths of all that it changed. */
export type Brought = {
  readonly message: unknown;
  readonly run?: string | undefined;
  readonly changedFields: readonly string[];
};

/** Finds what a checkpoint changed; of the first, or one whose parent was deleted or is damaged, its last message. */
export async function findBrought(
  manager: CheckpointManager,
  { id, parentId, agentType }: Checkpoint,
): Promise<Brought> {
  const parent = parentId === undefined ? undefined : await manager.get(parentId).catch(unlessDamaged);
  const compared = parent && (await manager.compare(parent.id, id).catch(unlessDamaged));
  if (compared === undefined) return { message: listMessages(await manager.load(id))?.at(-1), changedFields: [] };
  const { added, modified, changedFields } = compared;
  const news = [...modified, ...added];
  const message = findMessage(news);
  if (agentType !== 'workflow') return { message, changedFields };
  return { message, run: describeRun(news), changedFields: changedFields.filter((path) => path !== '$.status') };
}

type News = readonly { readonly path: string; readonly newValue?: unknown }[];

function findMessage(news: News): unknown {
  const last =
    news.findLast(({ path }) => MESSAGE.test(path))?.newValue ??
    news.find(({ path }) => PENDING.test(path))?.newValue ??
    findItem(news);
  return roleOf(last) === undefined ? fieldsOf(last).message : last;
}

/** The last message among the items that an adapter added. */
function findItem(news: News): unknown {
  const bodies = new Map(news.map(({ path, newValue }) => [path, newValue]));
  const messages = news.map(({ path, newValue }) => {
    const body = path.replace(ITEM, '$$.bodies$1');
    return body !== path && bodies.has(body) ? readItem(joinItem(newValue, bodies.get(body)))?.message : undefined;
  });
  return messages.findLast((message) => message !== undefined);
}

const RUN = /^\$\.(output$|(?:ends|failures|requests)[.[][^.]+$)/;

/** What a workflow did since the checkpoint before: steps that ended or failed, what people are asked, its output. */
function describeRun(news: News): string | undefined {
  const told = news.flatMap(({ path, newValue }) => {
    const [, kind] = RUN.exec(path) ?? [];
    if (kind === undefined) return [];
    if (kind === 'output') return `output: ${formatValue(newValue)}`;
    const { path: step, id, message, status = 'done', output, error } = fieldsOf(newValue);
    if (kind.startsWith('requests')) return `${String(id)} asks: ${String(message)}`;
    const said = fieldsOf(error).message ?? (output === undefined ? '' : formatValue(output));
    const head = status === 'done' ? String(step) : `${String(step)} ${String(status)}`;
    return said === '' ? head : `${head}: ${String(said)}`;
  });
  return told.length === 0 ? undefined : told.join('; ');
}

/** What is left of a parent that is damaged is no reason to say nothing about its child. */
export function unlessDamaged(error: unknown): undefined {
  if (!isLost(error)) throw error;
}

/** Tells what a checkpoint brought. */
export async function labelOf(manager: CheckpointManager, checkpoint: Checkpoint): Promise<Shape<typeof label>> {
  const { message, run, changedFields } = await findBrought(manager, checkpoint);
  const { id, name, note, reason, trigger, type } = checkpoint;
  const changes = changedFields.length;
  if (roleOf(message) === undefined) {
    const about = name ?? note ?? reason ?? run ?? (changes === 0 ? (trigger ?? type) : formatFields(changedFields));
    return { id, text: clip(about), tools: [], changes };
  }
  const { speaker, text, calls, results } = readParts(message);
  const tools = [...calls, ...results].map((each) => each.name);
  const said = text === '' ? calls.map(describeCall).join(', ') : text;
  return { id, speaker, text: clip(said), tools: [...new Set(tools)], changes };
}

const SHOWN_FIELDS = 3;

/** The first of some paths, and how many more there are. */
export function formatFields(paths: readonly string[]): string {
  const more = paths.length - SHOWN_FIELDS;
  return [...paths.slice(0, SHOWN_FIELDS), ...(more > 0 ? [`+${more} more`] : [])].join(', ');
}

function clip(text: string): string {
  const words = text
    .slice(0, MAX_CHARS * 4)
    .replaceAll(/\s+/g, ' ')
    .trim();
  return words.length > MAX_CHARS ? `${words.slice(0, MAX_CHARS)}…` : words;
}
