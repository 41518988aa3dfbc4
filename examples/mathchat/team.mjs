// A planner, a runner that executes the planner's programs, and a checker with a calculator.
import { join } from 'node:path';
import { AgentRegistry, GroupChat, StandardAgent } from 'savestate/agents';
import { calculator } from './calculator.mjs';
import { offlineModel } from './offline-model.mjs';

const PLANNER = `You plan how to solve a problem of mathematics, together with a runner and a checker. Write short JavaScript programs in
\`\`\`js blocks; the runner executes them and tells you what they print.`;
const CHECKER = `You check what the others found, with the calculator and in another way than they did. When you are sure, say the answer and
SOLUTION_FOUND.`;

/** Which model the team uses: OpenAI or Azure if there is a key, else the one that knows its lines. */
export function chooseModel(env) {
  if (env.OPENAI_API_KEY || env.OPENAI_BASE_URL)
    return { llmConfig: { provider: 'openai', model: env.OPENAI_MODEL ?? 'gpt-4o-mini' } };
  if (env.AZURE_OPENAI_API_KEY)
    return { llmConfig: { provider: 'azure', model: env.AZURE_OPENAI_DEPLOYMENT ?? 'gpt-4o-mini' } };
  return { model: offlineModel };
}

/** The code that new and restored teams need. */
// Programs run only below the folder that is given here: a checkpoint can ask for another one, and does not get it.
export function createRegistry(env, folder) {
  return new AgentRegistry({
    allowCode: [join(folder, 'work')],
    tools: [calculator],
    models: { [offlineModel.id]: offlineModel },
    env,
  });
}

export function createTeam({ env, folder }) {
  const workDir = join(folder, 'work');
  const model = chooseModel(env);
  return new GroupChat({
    agents: [
      new StandardAgent({ name: 'planner', systemMessage: PLANNER, ...model }),
      new StandardAgent({
        name: 'runner',
        description: 'Executes programs.',
        codeExecution: { workDir, timeoutMs: 10_000 },
        defaultReply: 'There was no program to run.',
      }),
      new StandardAgent({ name: 'checker', systemMessage: CHECKER, tools: [calculator], ...model }),
    ],
    registry: createRegistry(env, folder),
    speakerSelection: 'round_robin',
    maxRounds: 8,
    end: { signals: ['SOLUTION_FOUND', 'TERMINATE'] },
  });
}
