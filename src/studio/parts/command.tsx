import { useState } from 'react';
import { Icon } from './icon.tsx';

/** Copies a text, and says for a moment that it did. */
export function CopyButton({ text, label }: { text: string; label: string }) {
  const [isCopied, setCopied] = useState(false);
  const copy = async () => {
    await copyText(text);
    setCopied(true);
    setTimeout(() => setCopied(false), 1_500);
  };
  return (
    <button
      type="button"
      className="btn sm icon quiet"
      aria-label={isCopied ? 'Copied' : label}
      title={label}
      onClick={copy}
    >
      <Icon name={isCopied ? 'check' : 'copy'} small />
    </button>
  );
}

/** Pages that came without TLS from another machine have no clipboard of the new kind. */
async function copyText(text: string): Promise<void> {
  if (navigator.clipboard !== undefined) return navigator.clipboard.writeText(text);
  const field = Object.assign(document.createElement('textarea'), { value: text });
  document.body.append(field);
  field.select();
  document.execCommand('copy');
  field.remove();
}

/** The command line that does the same. */
export function CommandLine({ command }: { command: string }) {
  return (
    <div className="cli">
      <code title={command}>
        {command.split(/ (?=-)/).flatMap((part, n) => [n === 0 ? '' : ' ', <span key={part}>{part}</span>])}
      </code>
      <CopyButton text={command} label="Copy the command" />
    </div>
  );
}
