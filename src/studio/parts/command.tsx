import { useState } from 'react';
import { quoteArgument } from '../data/format.ts';
import { useReply } from '../data/use-reply.ts';
import { Icon } from './icon.tsx';

const OWN_HOST = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/;

/** What a person types, and what it needs besides; empty: nothing. */
type Placed = { readonly text: string; readonly needs: string };

/** Commands, one per line, with the storage that is shown: by its address on the machine of the server, otherwise through the server. */
function useCommands(commands: readonly string[], isThroughServer = false): Placed {
  const server = useReply('GET /v1/server').value;
  if (server === undefined) return { text: commands.join('\n'), needs: '' };
  const address = isThroughServer || !OWN_HOST.test(location.hostname) ? undefined : server.address;
  const place = address === undefined ? `--remote ${location.origin}` : `--storage ${quoteArgument(address)}`;
  return {
    text: commands.map((command) => `${command} ${place}`).join('\n'),
    needs: address === undefined ? 'Goes through this server: set SAVESTATE_TOKEN to its token.' : '',
  };
}

/** Copies a text, and tells for a moment that it did. */
function useCopy(text: string): readonly [isCopied: boolean, copy: () => Promise<void>] {
  const [isCopied, setCopied] = useState(false);
  const copy = async () => {
    await copyText(text);
    setCopied(true);
    setTimeout(() => setCopied(false), 1_500);
  };
  return [isCopied, copy];
}

type CommandProps = {
  command: string;
  /** What only the server has, such as its long-term memory. */
  isThroughServer?: boolean;
};

/** Copies the command that does the same. */
export function CopyCommand({ command, isThroughServer = false }: CommandProps) {
  const { text, needs } = useCommands([command], isThroughServer);
  const [isCopied, copy] = useCopy(text);
  return (
    <button type="button" className="btn" title={`${text}\n${needs}`.trim()} onClick={copy}>
      <Icon name={isCopied ? 'check' : 'terminal'} small />
      {isCopied ? 'Copied' : 'Copy as CLI'}
    </button>
  );
}

/** Copies commands, one per line, where there is little room. */
export function CopyCommands({ commands }: { commands: readonly string[] }) {
  return <CopyButton text={useCommands(commands).text} label="Copy as CLI" />;
}

/** Copies a text. */
export function CopyButton({ text, label }: { text: string; label: string }) {
  const [isCopied, copy] = useCopy(text);
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
  const { text, needs } = useCommands([command]);
  return (
    <>
      <div className="cli">
        <code title={text}>
          {text.split(/ (?=-)/).flatMap((part, n) => [n === 0 ? '' : ' ', <span key={part}>{part}</span>])}
        </code>
        <CopyButton text={text} label="Copy the command" />
      </div>
      {needs !== '' && <p className="t3 small">{needs}</p>}
    </>
  );
}

/** Lines of code to copy. */
export function CodeLines({ code }: { code: string }) {
  return (
    <div className="cli lines">
      <code>{code}</code>
      <CopyButton text={code} label="Copy the code" />
    </div>
  );
}
