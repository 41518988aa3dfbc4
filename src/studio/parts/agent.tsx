import type { CSSProperties } from 'react';

/** Who is a person and no agent. */
const PERSONS = new Set(['user', 'human', 'person', 'you']);

/** Who edited something: those are persons, too. */
const authors = new Set<string>();

/** The colours of agents, in the order in which they come. */
const AGENT_COLOURS = 5;

/** Remembers who came when, so that an agent has one colour on the whole page. */
const known = new Map<string, number>();

/** Whether somebody is a person. */
export function isPerson(name: string): boolean {
  return PERSONS.has(name.toLowerCase()) || authors.has(name);
}

type Team = { readonly names: { readonly agents: readonly string[] }; readonly persons: ReadonlySet<string> };

/** Gives agents their colours in the order in which a session names them, so that every screen has the same. */
export function nameAgents({ names, persons }: Team): void {
  for (const name of persons) authors.add(name);
  for (const name of names.agents) {
    agentToken(name);
    agentLetter(name);
  }
}

/** The token of an agent's colour. */
export function agentToken(name: string): string {
  if (isPerson(name)) return 'agent-user';
  if (!known.has(name)) known.set(name, known.size);
  return `agent-${((known.get(name) ?? 0) % AGENT_COLOURS) + 1}`;
}

/** This letter looks like a bar, not like a name. */
const BAR = 'I';
const letters = new Map<string, string>();

/** The letter of an agent: its first one that no other agent has, so that coder and critic are told apart without colour. */
export function agentLetter(name: string): string {
  const found = letters.get(name);
  if (found !== undefined) return found;
  const own = (name.match(/\p{L}|\p{N}/gu) ?? ['?']).map((letter) => letter.toUpperCase());
  const taken = new Set(letters.values());
  const letter = own.find((each) => !taken.has(each) && each !== BAR) ?? own[0] ?? '?';
  letters.set(name, letter);
  return letter;
}

/** A square with a letter: who speaks, never by colour alone. */
export function AgentSquare({ name }: { name: string }) {
  const style = { '--c': `var(--${agentToken(name)})` } as CSSProperties;
  return (
    <span className={`ag ${isPerson(name) ? 'is-person' : ''}`} style={style} aria-hidden="true">
      {agentLetter(name)}
    </span>
  );
}

/** The square and the name in its colour. */
export function AgentName({ name }: { name: string }) {
  const style = { '--c': `var(--${agentToken(name)})` } as CSSProperties;
  return (
    <>
      <AgentSquare name={name} />
      <span className="name clip" style={style} title={name}>
        {name}
      </span>
    </>
  );
}
