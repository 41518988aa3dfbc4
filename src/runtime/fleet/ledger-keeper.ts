import type { AgentTotals } from '../agent/agent-state.ts';
import { askLeader } from '../agent/agent-turn.ts';
import { PERSON, toModelMessages } from '../agent/chat-message.ts';
import type { ModelMessage } from '../model/chat-model.ts';
import type { World } from '../run/team-run.ts';
import type { Fleet } from './fleet.ts';
import type { FleetTypes } from './fleet-kind.ts';
import { type TaskLedger, wordRequest } from './fleet-state.ts';
import { type ProgressLedger, parseProgressLedger } from './progress-ledger.ts';

/** How often a model is asked for a ledger before the fleet is reset. */
const MAX_QUESTIONS = 3;

/** Asks the orchestrator's model: for facts, plans, progress and the final answer. Changes nothing. */
export class LedgerKeeper {
  readonly #fleet: Fleet;
  readonly #world: World<FleetTypes>;
  #totals: AgentTotals;
  #prompt: Promise<string> | undefined;

  constructor(fleet: Fleet, world: World<FleetTypes>) {
    this.#fleet = fleet;
    this.#world = world;
    this.#totals = fleet.record.totals;
  }

  /** What the orchestrator has used, with this. It counts when the move is complete: what is asked again is not counted twice. */
  get totals(): AgentTotals {
    return this.#totals;
  }

  /** What is known: gathered at the beginning, brought up to date when it is re-planned. */
  async gatherFacts(): Promise<string> {
    const { taskLedger } = this.#fleet.record;
    const request = wordRequest(this.#fleet.record);
    const question = taskLedger === null ? askForFacts(request) : askForNewFacts(request, taskLedger.facts);
    return (await this.#ask([...this.#conversation, user(question)])).text;
  }

  async makePlan(): Promise<string> {
    const { taskLedger, planFeedback } = this.#fleet.record;
    const { facts = '', plan = '' } = taskLedger ?? {};
    const request = wordRequest(this.#fleet.record);
    const known: ModelMessage[] = [user(askForFacts(request)), { role: 'assistant', content: facts }];
    const { members } = this.#fleet;
    const question =
      plan === ''
        ? askForPlan(members)
        : planFeedback === null
          ? askForNewPlan(members, plan)
          : askForRevision(plan, planFeedback);
    return (await this.#ask([...known, ...this.#conversation, user(question)])).text;
  }

  /** The ledger; undefined if three answers made none. Each time the model is told what was wrong. */
  async assessProgress(): Promise<ProgressLedger | undefined> {
    const names = this.#fleet.members.map(({ name }) => name);
    const asked = [...this.#conversation, user(askForProgress(wordRequest(this.#fleet.record), this.#fleet.members))];
    for (let question = 0; question < MAX_QUESTIONS; question++) {
      const { text, messages } = await this.#ask(asked);
      const { ledger, problems = [] } = parseProgressLedger(text, names);
      if (ledger !== undefined) return ledger;
      asked.push(...messages, user(askAgain(problems)));
    }
    return undefined;
  }

  async composeAnswer(isSatisfied: boolean): Promise<string> {
    const question = askForAnswer(wordRequest(this.#fleet.record), isSatisfied);
    return (await this.#ask([...this.#conversation, user(question)])).text;
  }

  get #conversation(): readonly ModelMessage[] {
    const { messages, settings } = this.#fleet.record;
    return toModelMessages(messages, settings.orchestratorName);
  }

  async #ask(messages: readonly ModelMessage[]): Promise<{ text: string; messages: readonly ModelMessage[] }> {
    const { orchestratorName: name, llmConfig, modelId } = this.#fleet.record.settings;
    this.#prompt ??= this.#wordPrompt(name);
    const said = { systemMessage: await this.#prompt, messages: [...messages] };
    const { effects, signal } = this.#world;
    const leader = { name, llmConfig, modelId, totals: this.#totals };
    const turn = await askLeader(leader, said, { effects, signal, registry: this.#fleet.registry });
    this.#totals = turn.totals;
    return { text: turn.content, messages: turn.messages };
  }

  /** Who plans must know what the user likes, or nobody does. */
  async #wordPrompt(name: string): Promise<string> {
    const { effects, signal, recall } = this.#world;
    if (recall === undefined) return ORCHESTRATOR_PROMPT;
    const { record } = this.#fleet;
    const heard = [{ name: PERSON, content: wordRequest(record) }, ...record.messages];
    const { text } = await recall(`${ORCHESTRATOR_PROMPT}${REMEMBERED}`, { name, heard, effects, signal });
    return text;
  }
}

function user(content: string): ModelMessage {
  return { role: 'user', content };
}

/** Who is in the fleet, as the orchestrator is told of them. */
type Team = readonly { readonly name: string; readonly description: string }[];

const ORCHESTRATOR_PROMPT =
  'You lead a team that works on a request. You keep a ledger of facts and a plan, decide who does what next, and judge whether the request is satisfied.';

/** Follows the orchestrator's prompt when the run has long-term memory. */
const REMEMBERED = '\n\nWhat is known from earlier:\n{memory}';

function askForFacts(request: string): string {
  return `This is the request:

${request}

Before we begin, list what we know and what we do not. Answer under these headings, and with nothing else:
1. GIVEN OR VERIFIED FACTS
2. FACTS TO LOOK UP, and where they may be found
3. FACTS TO DERIVE
4. EDUCATED GUESSES`;
}

function askForPlan(team: Team): string {
  return `This is the team:
${listTeam(team)}

Write a short plan for the request as a list of steps. Not everybody has to take part.`;
}

/** Asks to bring the facts up to date after the work got stuck. */
function askForNewFacts(request: string, facts: string): string {
  return `We are not making progress with the request:

${request}

This is what we knew:

${facts}

Rewrite it with what we have learned, under the same headings. Add at least one educated guess, and say why you guess so.`;
}

/** Asks for another plan after the work got stuck. */
function askForNewPlan(team: Team, plan: string): string {
  return `This was the plan:

${plan}

Say in a sentence why it led nowhere, and write a new one that avoids that. This is the team:
${listTeam(team)}`;
}

/** Asks for the plan again, with what a person wants. */
function askForRevision(plan: string, feedback: string): string {
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

function askForProgress(request: string, team: Team): string {
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

function askAgain(problems: readonly string[]): string {
  return `That could not be used:\n${problems.map((problem) => `- ${problem}`).join('\n')}\nAnswer again, with pure JSON.`;
}

/** Asks for the final answer; if the work had to be cut short, for the best there is. */
function askForAnswer(request: string, isSatisfied: boolean): string {
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
