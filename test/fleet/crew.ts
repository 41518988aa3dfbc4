import { z } from 'zod';
import { CheckpointManager } from '../../src/manager/checkpoint-manager.ts';
import type { StandardAgentOptions } from '../../src/runtime/agent/agent-options.ts';
import { AgentRegistry } from '../../src/runtime/agent/agent-registry.ts';
import { StandardAgent } from '../../src/runtime/agent/standard-agent.ts';
import { defineTool } from '../../src/runtime/agent/tool.ts';
import { Fleet } from '../../src/runtime/fleet/fleet.ts';
import type { FleetOptions } from '../../src/runtime/fleet/fleet-options.ts';
import { FleetRunner, type FleetRunnerOptions } from '../../src/runtime/fleet/fleet-runner.ts';
import type { ModelRequest } from '../../src/runtime/model/chat-model.ts';
import type { ChunkStorage } from '../../src/storage/contract.ts';
import { InMemoryCheckpointStorage } from '../../src/storage/memory/memory-storage.ts';
import type { ScriptedAnswer } from '../../src/testing/model/scripted-answer.ts';
import { type ScriptedModel, scriptedModel } from '../../src/testing/model/scripted-model.ts';

/** What a scripted orchestrator thinks of a round. */
export type Thought = {
  readonly satisfied?: boolean;
  readonly loop?: boolean;
  readonly progress?: boolean;
  readonly speaker?: string;
  readonly say?: string;
};

/** A thought as a model would write it. */
export function wordThought({ satisfied = false, loop = false, progress = true, speaker, say }: Thought): string {
  const entry = (answer: unknown) => ({ reason: `because ${String(answer)}`, answer });
  return JSON.stringify({
    is_request_satisfied: entry(satisfied),
    is_in_loop: entry(loop),
    is_progress_being_made: entry(progress),
    next_speaker: entry(speaker ?? 'researcher'),
    instruction_or_question: entry(say ?? 'Go on.'),
  });
}

/** How many replies of the agents a request has seen. */
export function countReplies({ messages }: ModelRequest): number {
  return messages.filter(({ content }) => /^(researcher|writer): /.test(String(content))).length;
}

/** The last thing a model was asked. */
export function lastQuestion({ messages }: ModelRequest): string {
  return String(messages.findLast(({ role }) => role === 'user')?.content ?? '');
}

export type CrewScript = {
  /** The ledger of a round: what a model writes, or a thought. Depends on the request, or on how often it was asked in this process. */
  readonly assess?: (request: ModelRequest, asked: number) => ScriptedAnswer | Thought;
  readonly plan?: (request: ModelRequest) => string;
  /** What agents say. */
  readonly speak?: (request: ModelRequest) => ScriptedAnswer;
};

export type Crew = {
  readonly fleet: Fleet;
  readonly model: ScriptedModel;
  readonly registry: AgentRegistry;
  /** What the tool was called with. */
  readonly calls: string[];
  /** What the orchestrator's model was asked for, in order. */
  readonly asked: string[];
};

const isThought = (answer: ScriptedAnswer | Thought): answer is Thought =>
  typeof answer === 'object' &&
  ['satisfied', 'loop', 'progress', 'speaker', 'say'].some((key) => key in answer || Object.keys(answer).length === 0);

/** A researcher who looks things up with a tool and a writer, led by a scripted orchestrator that is done after two replies. */
export function createCrew(
  script: CrewScript = {},
  options: Partial<FleetOptions> & { readonly researcher?: Partial<StandardAgentOptions> } = {},
): Crew {
  const calls: string[] = [];
  const asked: string[] = [];
  const lookUp = defineTool({
    name: 'look_up',
    description: 'Looks something up.',
    input: z.object({ what: z.string() }),
    run: ({ what }) => {
      calls.push(what);
      return `${what} is known.`;
    },
  });
  const orchestrate = (request: ModelRequest): ScriptedAnswer => {
    const kind = kindOf(lastQuestion(request));
    asked.push(kind);
    if (kind !== 'progress') return kind === 'plan' ? (script.plan?.(request) ?? 'Look it up.') : `The ${kind}.`;
    const rounds = asked.filter((name) => name === 'progress').length;
    const answer = script.assess?.(request, rounds) ?? { satisfied: countReplies(request) >= 2 };
    return isThought(answer) ? wordThought(answer) : answer;
  };
  const model = scriptedModel(
    (request) => (request.system?.startsWith('You lead') ? orchestrate(request) : (script.speak ?? speak)(request)),
    { id: 'crew', prices: { inputPerMillionUsd: 1, outputPerMillionUsd: 2 } },
  );
  const { researcher, ...rest } = options;
  const registry = new AgentRegistry({ tools: [lookUp], models: { crew: model } });
  const fleet = new Fleet({
    agents: [
      new StandardAgent({
        name: 'researcher',
        systemMessage: 'You look things up.',
        model,
        tools: [lookUp],
        ...researcher,
      }),
      new StandardAgent({ name: 'writer', systemMessage: 'You write.', model }),
    ],
    model,
    registry,
    ...rest,
  });
  return { fleet, model, registry, calls, asked };
}

function kindOf(question: string): string {
  if (question.includes('list what we know')) return 'facts';
  if (question.startsWith('We are not making progress')) return 'new facts';
  if (question.includes('Write a short plan') || question.includes('write a new one')) return 'plan';
  if (question.includes('Write the whole plan again')) return 'plan';
  return question.includes('Write the answer to the user') ? 'answer' : 'progress';
}

function speak({ system = '', messages }: ModelRequest): ScriptedAnswer {
  const last = messages.at(-1);
  if (last?.role === 'tool') return `Found in ${messages.length} messages.`;
  if (!system.startsWith('You look')) return `Written after ${messages.length} messages.`;
  return {
    toolCalls: [{ id: `call_${messages.length}`, name: 'look_up', input: { what: `thing ${messages.length}` } }],
  };
}

/** A fleet at work in a session of its own, in memory unless a storage is given. */
export function createRunner(
  crew: Crew,
  options: Partial<FleetRunnerOptions> & { readonly storage?: ChunkStorage } = {},
): { runner: FleetRunner; manager: CheckpointManager } {
  const { storage = new InMemoryCheckpointStorage(), ...rest } = options;
  const manager = rest.manager ?? new CheckpointManager({ storage });
  return { runner: new FleetRunner({ fleet: crew.fleet, sessionId: 'crew', ...rest, manager }), manager };
}
