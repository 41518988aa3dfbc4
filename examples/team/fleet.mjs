// The same two travellers as a fleet: an orchestrator leads them, and a person reviews its plan.
// savestate run --team examples/team/fleet.mjs "Plan a day in Lisbon"
import { StandardAgent } from 'savestate/agents';
import { Fleet } from 'savestate/fleet';
import { scriptedModel } from 'savestate/testing';

const model = scriptedModel(answer, { id: 'offline-orchestrator' });

/** What the command line asks for: a new fleet, with the registry it restores others with. */
export function createFleet({ registry }) {
  const agent = (name, systemMessage) => new StandardAgent({ name, systemMessage, model });
  const agents = [agent('planner', 'You plan trips.'), agent('critic', 'You check plans.')];
  return new Fleet({ agents, registry, model, planReview: true });
}

function answer({ system, messages }) {
  const question = String(messages.at(-1).content);
  const said = messages.map(({ content }) => String(content));
  if (system === 'You plan trips.') return 'We walk up to the castle.';
  if (system === 'You check plans.') return 'That is a good day.';
  if (question.includes('list what we know')) return 'GIVEN: the city is Lisbon.';
  if (question.includes('plan')) return 'The planner proposes, the critic checks.';
  if (question.includes('Write the answer to the user')) return 'Walk up to the castle.';
  const speakers = ['planner', 'critic'].filter((name) => !said.some((text) => text.startsWith(`${name}: `)));
  return ledger(speakers[0]);
}

function ledger(speaker) {
  const entry = (value) => ({ reason: 'by what was said', answer: value });
  return JSON.stringify({
    is_request_satisfied: entry(speaker === undefined),
    is_in_loop: entry(false),
    is_progress_being_made: entry(true),
    next_speaker: entry(speaker ?? 'planner'),
    instruction_or_question: entry('Go on.'),
  });
}
