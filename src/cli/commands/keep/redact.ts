import { createReadStream, createWriteStream } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { ConflictError, InvalidInputError, StorageError } from '../../../core/errors.ts';
import type { SessionId } from '../../../core/record/id.ts';
import { CheckpointManager } from '../../../manager/checkpoint-manager.ts';
import { rewriteSession } from '../../../manager/transfer/rewrite-session.ts';
import { makeFolder } from '../../../storage/make-folder.ts';
import { InMemoryCheckpointStorage } from '../../../storage/memory/memory-storage.ts';
import { parseStatePath } from '../../../view/state-path.ts';
import type { Command } from '../../base/command.ts';
import type { CommandInput } from '../../base/command-input.ts';
import type { Context } from '../../base/context.ts';
import type { OpenStorage } from '../../base/open-storage.ts';
import { readText } from '../../place/read-text.ts';
import { Redaction, type RedactionRules } from '../../state/redaction-rules.ts';
import { formatCount, formatSize } from '../../terminal/format.ts';

/** Shorter texts are in every word. */
const MIN_TEXT_CHARS = 4;

/** Takes something out of a whole session. */
export const command: Command = {
  options: [
    ['--text-from <file>', 'a text to take out, the whole content of this file; - reads standard input', 'repeat'],
    ['--env <name>', 'a text to take out, the value of this variable', 'repeat'],
    ['--pattern <regex>', 'what fits this expression', 'repeat'],
    ['--path <path>', 'the value at this path of every state', 'repeat'],
    ['--dry-run', 'only say how often it is there'],
  ],
  details: `Rewrites every checkpoint and recorded effect of the session: what was there is [redacted] afterwards, and its bytes are removed.
Ids, times, branches and tags stay; digests change. A secret is not given as an option, where others could see it.
Stop programs that write to the session first. Copies and exports elsewhere are not touched. It shows what it would do and asks.`,
  examples: [
    ['savestate redact --env LEAKED_KEY -s chat-42', 'a key that was said in a chat'],
    [`savestate redact --pattern '\\b\\d{4} \\d{4} \\d{4} \\d{4}\\b' --dry-run`, 'how often a card number is there'],
    ['savestate redact --path $.customer.phone --yes', 'one field of all states'],
  ],
  run: async (context, input) => {
    const rules = readRules(context, input);
    const opened = await context.open();
    const sessionId = await opened.session();
    const draft = await writeDraft(context, sessionId, rules);
    try {
      const { checkpoints, effects, places } = draft;
      const output = { sessionId, checkpoints, effects, places };
      const found = `${formatCount(places, 'place')} in ${formatCount(checkpoints, 'checkpoint')} of session "${sessionId}"`;
      const question = `This rewrites ${formatCount(checkpoints, 'checkpoint')} of session "${sessionId}" and removes what was in ${formatCount(places, 'place')} for good.`;
      if (places === 0 || !(await context.confirm(question, input)))
        return await context.answer({ isDryRun: true, ...output }, () => `Found in ${found}; nothing was changed.\n`);
      const { chunks, bytes } = await replace(context, opened, draft);
      return await context.answer(
        { isDryRun: false, ...output, collected: { chunks, bytes } },
        () => `Taken out of ${found}; ${formatSize(bytes)} given back.\n`,
      );
    } finally {
      if (!draft.isNeeded) await rm(draft.file, { force: true });
    }
  },
};

function readRules(context: Context, input: CommandInput): RedactionRules {
  const texts = [
    ...input.texts('textFrom').map((file) => readText(file, 'text').replace(/\r?\n$/, '')),
    ...input.texts('env').map((name) => context.env[name] ?? failEmpty(name)),
  ];
  const short = texts.find((text) => text.length < MIN_TEXT_CHARS);
  if (short !== undefined)
    throw new InvalidInputError(`A text to take out needs at least ${MIN_TEXT_CHARS} characters.`);
  const rules = {
    texts,
    patterns: input.texts('pattern').map(parsePattern),
    paths: input.texts('path').map(parseStatePath),
  };
  if (Object.values(rules).every((list) => list.length === 0))
    throw new InvalidInputError('Say what to take out: --text-from, --env, --pattern or --path.');
  return rules;
}

function failEmpty(name: string): never {
  throw new InvalidInputError(`The variable ${name} is not set.`);
}

function parsePattern(text: string): RegExp {
  try {
    const pattern = new RegExp(text, 'gu');
    if (!new RegExp(text, 'u').test('')) return pattern;
  } catch (cause) {
    throw new InvalidInputError(`"${text}" is no regular expression.`, { cause });
  }
  throw new InvalidInputError(`"${text}" fits everywhere.`);
}

/** The rewritten session in a file: what the storage gets, if everything is well. */
type Draft = {
  readonly file: string;
  readonly names: string;
  readonly checkpoints: number;
  readonly effects: number;
  readonly places: number;
  /** Set while the session is nowhere else. */
  isNeeded: boolean;
};

async function writeDraft(context: Context, sessionId: SessionId, rules: RedactionRules): Promise<Draft> {
  const opened = await context.open();
  const folder = await context.stateFolder();
  makeFolder(folder);
  const file = join(folder, `redacted-${Date.now()}-${process.pid}.jsonl`);
  const redaction = new Redaction(rules);
  const names = await readNames(opened, sessionId);
  const lines = context.watch(opened.manager.exportSession(sessionId), { noun: 'records', total: undefined });
  await pipeline(rewriteSession(lines, redaction), createWriteStream(file, { mode: 0o600 }), {
    signal: context.signal,
  });
  // Read back and checked whole, before anything is deleted.
  const trial = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  const { checkpoints, effects } = await trial.importSession(createReadStream(file));
  await trial.close();
  return { file, names, checkpoints, effects, places: redaction.places, isNeeded: false };
}

async function readNames({ storage }: OpenStorage, sessionId: SessionId): Promise<string> {
  return JSON.stringify((await storage.readRefs({ sessionId })).map(({ kind, name, target }) => [kind, name, target]));
}

async function replace(context: Context, opened: OpenStorage, draft: Draft) {
  const sessionId = await opened.session();
  if ((await readNames(opened, sessionId)) !== draft.names)
    throw new ConflictError(
      `Session "${sessionId}" was changed meanwhile. Stop the programs that write to it, and run this again.`,
    );
  draft.isNeeded = true;
  await opened.manager.deleteSession(sessionId);
  try {
    await opened.manager.importSession(createReadStream(draft.file));
  } catch (cause) {
    throw new StorageError(
      `The rewritten session could not be stored. It is whole in ${draft.file}: bring it back with "savestate import".`,
      { cause },
    );
  }
  draft.isNeeded = false;
  return opened.manager.gc({ signal: context.signal });
}
