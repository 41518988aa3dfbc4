import type { FleetRecord, TaskLedger } from './fleet-state.ts';

/** Who is in the fleet, as the orchestrator is told of them. */
export type Team = readonly { readonly name: string; readonly description: string }[];

/** What the orchestrator is told to be. */
export const ORCHESTRATOR_PROMPT =
  'You lead a team that works on a request. You keep a ledger of facts and a plan, decide who does what next, and judge whether the request is satisfied.';

/** Follows the orchestrator's prompt when the run has long-term memory. */
export const REMEMBERED = '\n\nWhat is known from earlier:\n{memory}';

/** The request with everything that was asked for later. */
export function wordRequest({ task, followUps }: Pick<FleetRecord, 'task' | 'followUps'>): string {
  return [task, ...followUps.map((prompt) => `Later the user said: ${prompt}`)].join('\n\n');
}

/** Asks what is known at the beginning. */
export function askForFacts(request: string): string {
  return `This is the request:

${request}

Before we begin, list what we know and what we do not. Answer under these headings, and with nothing else:
1. GIVEN OR VERIFIED FACTS
2. FACTS TO LOOK UP, and where they may be found
3. FACTS TO DERIVE
4. EDUCATED GUESSES`;
}

/** Asks for a plan that uses the team. */
export function askForPlan(team: Team): string {
  return `This is the team:
${listTeam(team)}

Write a short plan for the request as a list of steps. Not everybody has to take part.`;
}

/** Asks to bring the facts up to date after the work got stuck. */
export function askForNewFacts(request: string, facts: string): string {
  return `We are not making progress with the request:

${request}

This is what we knew:

${facts}

Rewrite it with what we have learned, under the same headings. Add at least one educated guess, and say why you guess so.`;
}

/** Asks for another plan after the work got stuck. */
export function askForNewPlan(team: Team, plan: string): string {
  return `This was the plan:

${plan}

Say in a sentence why it led nowhere, and write a new one that avoids that. This is the team:
${listTeam(team)}`;
}

/** Asks for the plan again, with what a person wants. */
export function askForRevision(plan: string, feedback: string): string {
  return `This is the plan:

${plan}

The user wants it to be changed: ${feedback}

Write the whole plan again.`;
}

/** The ledger as the team hears it when work begins. */
export function wordLedger(request: string, team: Team, { facts, plan }: TaskLedger): string {
  return `We are working on this request:

${request}

This is the team:
${listTeam(team)}

What we know:

${facts}

The plan:

${plan}`;
}

/** Asks for the progress ledger. */
export function askForProgress(request: string, team: Team): string {
  const names = team.map(({ name }) => name).join(', ');
  return `Recall the request:

${request}

And the team:
${listTeam(team)}

Answer these questions, each with a reason:
- is_request_satisfied: is the request fully satisfied? (true or false)
- is_in_loop: are we repeating ourselves? (true or false)
- is_progress_being_made: does the work move forward? (true or false)
- next_speaker: who should speak next? (one of: ${names})
- instruction_or_question: what would you tell or ask them? (as if speaking to them, with everything they need to know)

Answer with pure JSON of this form, and with nothing else:
{
  "is_request_satisfied": { "reason": "...", "answer": true },
  "is_in_loop": { "reason": "...", "answer": false },
  "is_progress_being_made": { "reason": "...", "answer": true },
  "next_speaker": { "reason": "...", "answer": "..." },
  "instruction_or_question": { "reason": "...", "answer": "..." }
}`;
}

/** Says what was wrong with an answer. */
export function askAgain(problems: readonly string[]): string {
  return `That could not be used:\n${problems.map((problem) => `- ${problem}`).join('\n')}\nAnswer again, with pure JSON.`;
}

/** Asks for the final answer; if the work had to be cut short, for the best there is. */
export function askForAnswer(request: string, isSatisfied: boolean): string {
  const state = isSatisfied
    ? 'The request is satisfied.'
    : 'We have to stop here. Give the best answer that our work allows, and say what is missing.';
  return `This was the request:

${request}

${state} Write the answer to the user, as if speaking to them.`;
}

function listTeam(team: Team): string {
  return team.map(({ name, description }) => `- ${name}: ${description.replaceAll('\n', ' ')}`).join('\n');
}
