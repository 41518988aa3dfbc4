import { defaultKeymap, history, historyKeymap } from '@codemirror/commands';
import { json } from '@codemirror/lang-json';
import { MergeView } from '@codemirror/merge';
import { EditorState, type Extension } from '@codemirror/state';
import { EditorView, highlightSpecialChars, keymap, lineNumbers } from '@codemirror/view';
import { useEffect, useRef } from 'react';
import { REST_MS } from '../data/use-rested.ts';
import type { Edit } from './use-draft.ts';

type EditorProps = {
  original: unknown;
  /** What was typed before, if anything was. */
  typed: string | undefined;
  onEdit: (edit: Edit) => void;
};

/** The state beside itself: the left stays, the right can be changed. Loaded only when somebody edits. */
export function JsonEditor({ original, typed, onEdit }: EditorProps) {
  const box = useRef<HTMLDivElement>(null);
  const tell = useRef(onEdit);
  tell.current = onEdit;
  const before = useRef(typed);
  useEffect(() => {
    if (box.current === null) return undefined;
    const text = JSON.stringify(original, null, 2);
    // A large state takes long to read: not for every key, and at the latest when the field is left for the button.
    let timer: ReturnType<typeof setTimeout> | undefined;
    const read = () => {
      if (timer === undefined) return;
      clearTimeout(timer);
      timer = undefined;
      tell.current(parse(view.b.state.doc.toString(), text));
    };
    const view = new MergeView({
      a: { doc: text, extensions: [...shared(), EditorState.readOnly.of(true)] },
      b: {
        doc: before.current ?? text,
        extensions: [
          ...shared(),
          EditorView.updateListener.of(({ docChanged }) => {
            if (!docChanged) return;
            clearTimeout(timer);
            timer = setTimeout(read, REST_MS);
          }),
          EditorView.domEventHandlers({ blur: read }),
        ],
      },
      parent: box.current,
    });
    return () => {
      clearTimeout(timer);
      view.destroy();
    };
  }, [original]);
  return <div className="editor" ref={box} />;
}

function shared(): Extension[] {
  const nonce = document.querySelector<HTMLMetaElement>('meta[name="csp-nonce"]')?.content;
  return [
    lineNumbers(),
    highlightSpecialChars(),
    history(),
    keymap.of([...defaultKeymap, ...historyKeymap]),
    json(),
    EditorView.lineWrapping,
    ...(nonce === undefined ? [] : [EditorView.cspNonce.of(nonce)]),
  ];
}

function parse(text: string, original: string): Edit {
  if (text === original) return {};
  try {
    return { text, state: JSON.parse(text) };
  } catch (error) {
    return { text, problem: error instanceof Error ? error.message : String(error) };
  }
}
