import { InvalidInputError } from '../../../core/errors.ts';
import { LinearPattern } from '../../../core/pattern/linear-pattern.ts';
import { eachCheckpoint } from '../../../manager/branch/history.ts';
import { checkSession } from '../../../manager/transfer/import.ts';
import { replaceSession } from '../../../manager/transfer/replace-session.ts';
import { rewriteSession } from '../../../manager/transfer/rewrite-session.ts';
import type { Ref } from '../../../storage/contract.ts';
import { parseStatePath } from '../../../view/state-path.ts';
import type { Command, CommandInput, Context, OpenStorage } from '../../base/command.ts';
import { readText } from '../../place/read-text.ts';
import { Redaction, type RedactionRules } from '../../state/redaction-rules.ts';
import { formatCount, formatSize } from '../../terminal/format.ts';

/** Shorter texts are in every word. */
const MIN_TEXT_CHARS = 4;

/** Takes something out of a whole session. */
export const command: Command = {
  options: [
    ['--text-from <file>', 'remove the content of this file, or - for standard input', 'repeat'],
    ['--env <name>', 'remove the value of this environment variable', 'repeat'],
    ['--pattern <regex>', 'remove matches of this expression', 'repeat'],
    ['--path <path>', 'remove the value at this path of every state', 'repeat'],
    ['--dry-run', 'only count the occurrences'],
  ],
  details: `Rewrites every checkpoint, note and recorded effect of the session: matches become [redacted], and their bytes are removed.
A number that matches goes whole, and a text also where JSON inside a text escapes it; a pattern sees what is written. Ids, times, branches and tags stay, and it says which of them hold it, too; digests change. No option takes the secret itself, because others could see it.
A program that has the session open is refused when it saves (CONFLICT), and must open it again: stop it first. If the command is killed, the next one that opens the storage, or a program that opens the session, finishes it. Copies, backups and exports elsewhere are not touched: run it there, too. Shows the plan and asks first.`,
  examples: [
    ['savestate redact --env LEAKED_KEY -s chat-42', 'a key in a chat'],
    [`savestate redact --pattern '\\b\\d{4} \\d{4} \\d{4} \\d{4}\\b' --dry-run`, 'count card numbers'],
    ['savestate redact --path $.customer.phone --yes', 'one field of all states'],
  ],
  run: async (context, input) => {
    const rules = readRules(context, input);
    const opened = await context.open();
    const { manager, storage } = opened;
    const sessionId = await opened.session();
    const refs = await storage.readRefs({ sessionId });
    const redaction = new Redaction(rules);
    const lines = context.watch(manager.exportSession(sessionId), { noun: 'records', total: undefined });
    const { checkpoints, effects } = await checkSession(manager.engine, rewriteSession(lines, redaction));
    const { places } = redaction;
    const keptNames = await findKeptNames(opened, { sessionId, refs, rules });
    const output = { sessionId, checkpoints, effects, places, keptNames };
    const kept = keptNames.length === 0 ? '' : `Names stay, and these hold it, too: ${keptNames.join(', ')}.\n`;
    const found = `${formatCount(places, 'place')} in ${formatCount(checkpoints, 'checkpoint')} of session "${sessionId}"`;
    const question = `This rewrites ${formatCount(checkpoints, 'checkpoint')} of session "${sessionId}" and removes their content in ${formatCount(places, 'place')} for good.`;
    if (places === 0 || !(await context.confirm(question, input)))
      return context.answer({ isDryRun: true, ...output }, () => `Found in ${found}; nothing was changed.\n${kept}`);
    await replaceSession(manager.engine, {
      sessionId,
      refs,
      lines: rewriteSession(manager.exportSession(sessionId), new Redaction(rules)),
    });
    const { chunks, bytes } = await manager.gc({ signal: context.signal });
    return context.answer(
      { isDryRun: false, ...output, collected: { chunks, bytes } },
      () => `Removed from ${found}; ${formatSize(bytes)} freed.\n${kept}`,
    );
  },
};

type Searched = { readonly sessionId: string; readonly refs: readonly Ref[]; readonly rules: RedactionRules };

/** Which kinds of names hold what was to be removed: others refer to them, so they stay. The names themselves are not repeated. */
async function findKeptNames(
  { manager }: Pick<OpenStorage, 'manager'>,
  { sessionId, refs, rules }: Searched,
): Promise<string[]> {
  const redaction = new Redaction(rules);
  const kept = new Set<string>();
  const check = (what: string, name: string | undefined) => {
    if (redaction.ofOther(name) !== name) kept.add(what);
  };
  check('session', sessionId);
  for (const { kind, name } of refs) if (kind === 'branch' || kind === 'tag') check(kind, name);
  for await (const { userId, agentId } of eachCheckpoint(manager, { sessionId })) {
    check('user', userId);
    check('agent', agentId);
  }
  return [...kept];
}

function readRules(context: Context, input: CommandInput): RedactionRules {
  const texts = [
    ...input.texts('textFrom').map((file) => readText(file, 'text').replace(/\r?\n$/, '')),
    ...input.texts('env').map((name) => context.env[name] ?? failEmpty(name)),
  ];
  const short = texts.find((text) => text.length < MIN_TEXT_CHARS);
  if (short !== undefined) throw new InvalidInputError(`A text to remove needs at least ${MIN_TEXT_CHARS} characters.`);
  const rules = {
    texts,
    patterns: input.texts('pattern').map(parsePattern),
    paths: input.texts('path').map(parseStatePath),
  };
  if (Object.values(rules).every((list) => list.length === 0))
    throw new InvalidInputError('Say what to remove: --text-from, --env, --pattern or --path.');
  return rules;
}

function failEmpty(name: string): never {
  throw new InvalidInputError(`The variable ${name} is not set.`);
}

function parsePattern(source: string): LinearPattern {
  const pattern = new LinearPattern({ source, flags: 'u' }, '--pattern');
  if (pattern.test('')) throw new InvalidInputError(`The pattern /${source}/ matches everywhere.`);
  return pattern;
}
