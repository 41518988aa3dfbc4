import { expect, test } from 'vitest';
import { createRegistry } from '../../../test/support/team.ts';
import { createTeam, parseTeam } from './team-config.ts';

const TEAM = `
agents:
  - name: solver
    system_message: You solve problems.
    model: scripted-team
    tools: [square]
    runtime: { store: true }
  - name: critic
    class: CountingAgent
    system_message: You check.
    model: scripted-team
    human_input_mode: TERMINATE
    max_consecutive_auto_replies: 3
  - name: runner
    code_execution: { workDir: work, timeoutMs: 1000 }
    default_reply: Nothing to run.
speaker_selection: round_robin
max_rounds: 6
introductions: true
end: { signals: [DONE], pattern: "^ok$", max_tokens: 1000, max_cost_usd: 0.5 }
`;

test('[chat.6] a team can be described in a file', () => {
  const { registry } = createRegistry(() => undefined);
  registry.allowCode('work');
  const chat = createTeam(parseTeam(TEAM), registry);
  const { agents } = chat.saveState();
  expect(agents.solver).toMatchObject({
    agentType: 'StandardAgent',
    modelId: 'scripted-team',
    tools: { square: expect.any(String) },
    runtime: { stream: true, store: true, checkpoint: true },
  });
  expect(agents.critic).toMatchObject({
    agentType: 'CountingAgent',
    systemMessage: 'You check.',
    humanInputMode: 'TERMINATE',
  });
  expect(agents.runner).toMatchObject({ codeExecution: { workDir: 'work' }, defaultReply: 'Nothing to run.' });
  expect(chat.record.settings).toMatchObject({
    speakerSelection: 'round_robin',
    maxRounds: 6,
    sendIntroductions: true,
    end: { signals: ['DONE'], pattern: { source: '^ok$' }, maxTokens: 1000, maxCostUsd: 0.5 },
  });
});

test('[chat.6] an agent of a registered class gets all that its file says', () => {
  const { registry } = createRegistry(() => undefined);
  registry.allowCode('work');
  const text = `
agents:
  - name: counter
    class: CountingAgent
    tools: [square]
    default_reply: Hello.
    code_execution: { workDir: work }
    runtime: { store: true }
`;
  const { agents } = createTeam(parseTeam(text), registry).saveState();
  expect(agents.counter).toMatchObject({
    agentType: 'CountingAgent',
    tools: { square: expect.any(String) },
    defaultReply: 'Hello.',
    codeExecution: { workDir: 'work' },
    runtime: { store: true },
    custom: { heard: 0 },
  });
});

test('[chat.6] what is wrong in it is said with line and column, and a suggestion', () => {
  const wrong = 'agents:\n  - name: ann\n    sytem_message: Hello.\nmax_rounds: none\n';
  expect(() => parseTeam(wrong)).toThrow(/3:5.*system_message[\s\S]*4:13/);
  expect(() => parseTeam('agents: []')).toThrow(/agents/);
  expect(() => createTeam(parseTeam('agents: [{ name: ann, tools: [fax] }]'))).toThrow(
    '"ann" needs the tool "fax", which the registry does not have.',
  );
});

test.each([
  ['  - { name: a, model: gpt }', '3:23 agents[1].model: "a" needs the model "gpt"'],
  ['  - { name: a, tools: [fax] }', '3:23 agents[1].tools: "a" needs the tool "fax"'],
  ['  - { name: a, class: Nobody }', '3:23 agents[1].class: "a" needs the class "Nobody"'],
  ['  - { name: a, llm: { modle: x } }', '3:21 agents[1].llm: This llmConfig cannot be used'],
  ['  - { name: a, code_execution: { workDir: w } }', '3:32 agents[1].code_execution: The team file asks to run code'],
  ['  - { name: ann }', '2:3 agents: "ann" is the name of two in the team.'],
  ['  - { name: a }', 'speaker_selection: Speakers are selected by a model'],
  [
    '  - { name: a }\nallowed_transitions: { ann: [bob] }',
    '4:22 allowed_transitions: The allowed transitions name "bob"',
  ],
  ['  - { name: a }\nspeaker_selection: { selector: nobody }', '4:20 speaker_selection: The selector "nobody"'],
  ['speaker_selection: round_robin\nend: { predicate: nobody }', '4:19 end.predicate: The predicate "nobody"'],
  [
    'speaker_selection: round_robin\nend: { pattern: "(" }',
    '4:17 end.pattern: The pattern /(/ is not a regular expression.',
  ],
  ['speaker_selection: round_robin\nend: { pattern: "a*" }', '4:17 end.pattern: The pattern /a*/ fits an empty text'],
  ['speaker_selection: round_robin\nseed: 3', '4:7 seed: A seed has an effect'],
])('[chat.6] a team that cannot be made says where in its file that is: %s', (lines, message) => {
  const text = `agents:\n  - name: ann\n${lines}\n`;
  const make = () => createTeam(parseTeam(text, { source: 'our.yaml' }));
  expect(make).toThrow('"our.yaml" has 1 problem:\n');
  expect(make).toThrow(message);
});

test('[chat.6] two selectors are refused', () => {
  const { registry } = createRegistry(() => undefined);
  const text =
    'agents: [{ name: a }, { name: b }]\nselector: { provider: openai, model: x }\nselector_model: scripted-team\n';
  expect(() => createTeam(parseTeam(text), registry)).toThrow('both a selector and a selector_model');
});
