// What the team says when there is no model to ask: every answer follows from the request alone, so a resumed run goes on as before.
import { scriptedModel } from 'savestate/testing';

export const DEFAULT_PROBLEM =
  'Find the sum of all natural numbers below 1000 that are multiples of 3 or 5. Check the result in a second way.';

const PROGRAM = `let sum = 0;
for (let n = 1; n < 1000; n++) if (n % 3 === 0 || n % 5 === 0) sum += n;
console.log('sum =', sum);`;

/** By inclusion and exclusion: 3 + 6 + ... + 999, 5 + ... + 995, and 15 + ... + 990, which was counted twice. */
const FORMULA = '3*(333*334)/2 + 5*(199*200)/2 - 15*(66*67)/2';

export const offlineModel = scriptedModel(answer, { id: 'offline-mathematicians' });

function answer({ system = '', messages }) {
  const problem = textOf(messages.find(({ role }) => role === 'user'));
  if (system.includes('You plan')) return plan(problem, messages);
  return check(problem, messages);
}

function plan(problem, messages) {
  if (!isDefault(problem)) {
    const expression = findExpression(problem);
    return expression === undefined
      ? 'Without a model I can only compute: I see no arithmetic expression in the problem. Set OPENAI_API_KEY to let a model think. TERMINATE'
      : `Let us compute ${expression}.`;
  }
  const rounds = messages.filter(({ role }) => role === 'assistant').length;
  return rounds === 0
    ? `We add the numbers up with a program, and then check the sum with a formula.\n\n\`\`\`js\n${PROGRAM}\n\`\`\``
    : 'The program and the formula agree, as far as I can see. Checker, is that so?';
}

function check(problem, messages) {
  const expression = isDefault(problem) ? FORMULA : findExpression(problem);
  const last = messages.at(-1);
  if (last?.role !== 'tool')
    return { toolCalls: [{ id: `call_${messages.length}`, name: 'calculator', input: { expression } }] };
  const value = last.content[0].output.value;
  if (!isDefault(problem)) return `${expression} = ${value}. SOLUTION_FOUND`;
  const sum = /^sum = (\d+)$/m.exec(messages.map(textOf).join('\n'))?.[1];
  return sum === value
    ? `Inclusion and exclusion give ${FORMULA} = ${value}, and the program says ${sum}. SOLUTION_FOUND: ${value}`
    : `The formula gives ${value}, and the program ${sum ?? 'nothing yet'}. Planner, look again.`;
}

function isDefault(problem) {
  return problem.includes(DEFAULT_PROBLEM);
}

function findExpression(text) {
  return text.match(/[\d(][\d\s.()*/%^+-]*[-+*/%^][\d\s.()*/%^+-]*[\d)]/)?.[0].trim();
}

function textOf(message) {
  return typeof message?.content === 'string' ? message.content : '';
}
