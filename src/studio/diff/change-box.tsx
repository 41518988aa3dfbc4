import { countOf } from '../data/format.ts';
import type { Reply } from '../data/server.ts';
import { useReplyIf } from '../data/use-reply.ts';
import { type Change, type Diff, SIGNS, TONES } from './changes.ts';

type BoxProps = { diff: Diff; change: Change; isInline: boolean; isHere: boolean; isNarrow: boolean };

/** One change: where, and what it was and is; of texts word by word. */
export function ChangeBox({ diff, change, isInline, isHere, isNarrow }: BoxProps) {
  const { kind, path, before, after, from, isCut } = change;
  const isText = kind === 'changed' && typeof before === 'string' && typeof after === 'string' && !isCut;
  const query = { before: diff.before.id, after: diff.after.id, path };
  const words = useReplyIf('GET /v1/text-diff', isText ? { query } : undefined).value;
  return (
    <section className={`change ${isHere ? 'is-here' : ''}`} aria-label={path}>
      <header>
        <b className={TONES[kind]}>{SIGNS[kind]}</b>
        <span className="mono clip grow" title={path}>
          {path}
        </span>
        <span className="t3">
          {from === undefined ? words && describe(words.changes) : `moved from ${from}`}
          {isCut && 'cut, it is large'}
        </span>
      </header>
      {kind !== 'moved' && (
        <Sides change={change} words={words?.changes} isInline={isInline || (isNarrow && kind !== 'changed')} />
      )}
    </section>
  );
}

type Words = Reply<'GET /v1/text-diff'>['changes'];

function describe(changes: Words): string {
  const count = (op: 'add' | 'remove') =>
    changes.reduce((sum, change) => sum + (change.op === op ? (change.text.match(/\S+/g)?.length ?? 0) : 0), 0);
  return `text, ${countOf(count('remove'), 'word')} removed, ${count('add')} added`;
}

type SideProps = { change: Change; words: Words | undefined; isInline: boolean };

function Sides({ change: { before, after }, words, isInline }: SideProps) {
  if (words !== undefined && isInline)
    return (
      <div className="sides is-one">
        <pre>{words.map(toWord)}</pre>
      </div>
    );
  const old = words === undefined ? printed(before) : words.filter(({ op }) => op !== 'add').map(toWord);
  const fresh = words === undefined ? printed(after) : words.filter(({ op }) => op !== 'remove').map(toWord);
  if (isInline)
    return (
      <div className="sides is-one">
        {before !== undefined && <pre className="is-old">{old}</pre>}
        {after !== undefined && <pre className="is-new">{fresh}</pre>}
      </div>
    );
  return (
    <div className="sides">
      {before === undefined ? <pre className="is-none">not in A</pre> : <pre className="is-old">{old}</pre>}
      {after === undefined ? <pre className="is-none">not in B</pre> : <pre className="is-new">{fresh}</pre>}
    </div>
  );
}

function toWord({ op, text }: Words[number], place: number) {
  const key = `${place} ${op}`;
  if (op === 'remove') return <del key={key}>{text}</del>;
  if (op === 'add') return <ins key={key}>{text}</ins>;
  return <span key={key}>{text}</span>;
}

function printed(value: unknown): string {
  return typeof value === 'string' ? value : (JSON.stringify(value, null, 2) ?? '');
}
