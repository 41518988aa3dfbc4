import { InvalidInputError } from '../../../core/errors.ts';
import type { Command } from '../../base/command.ts';

const SCRIPTS: Readonly<Record<string, string>> = {
  bash: `_savestate() {
  local IFS=$'\\n'
  COMPREPLY=($(savestate complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _savestate savestate
`,
  zsh: `#compdef savestate
_savestate() {
  local -a found
  found=("\${(@f)$(savestate complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  compadd -a found
}
compdef _savestate savestate
`,
  fish: `complete -c savestate -f -a '(savestate complete -- (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'
`,
};

/** Prints a completion script. */
export const command: Command = {
  arguments: '<shell>',
  details: 'Completes commands, options, branches, tags and the last checkpoints.',
  examples: [
    ['source <(savestate completion bash)', 'in ~/.bashrc'],
    ['savestate completion zsh > ~/.zfunc/_savestate', 'for zsh'],
    ['savestate completion fish > ~/.config/fish/completions/savestate.fish', 'for fish'],
  ],
  run: async (context, input) => {
    const shell = input.need(0, 'which shell: bash, zsh or fish');
    const script = Object.hasOwn(SCRIPTS, shell) ? SCRIPTS[shell] : undefined;
    if (script === undefined)
      throw new InvalidInputError(
        `There is no completion for "${shell}". There is one for: ${Object.keys(SCRIPTS).join(', ')}.`,
      );
    context.terminal.printWhole(script);
  },
};
