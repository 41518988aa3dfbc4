// A calculator that agents can use: numbers, + - * / % ^, parentheses. It never runs code.
import { defineTool } from 'savestate/agents';
import { z } from 'zod';

const LEVELS = [['+', '-'], ['*', '/', '%'], ['^']];

const APPLY = {
  '+': (a, b) => a + b,
  '-': (a, b) => a - b,
  '*': (a, b) => a * b,
  '/': (a, b) => a / b,
  '%': (a, b) => a % b,
  '^': (a, b) => a ** b,
};

export function calculate(expression) {
  const tokens = expression.match(/\d+(?:\.\d+)?|[-+*/%^()]|\S/g) ?? [];
  const value = parseLevel(tokens, 0);
  if (tokens.length > 0) throw new Error(`I do not understand "${tokens[0]}" in ${expression}.`);
  return value;
}

function parseLevel(tokens, level) {
  const operators = LEVELS[level];
  if (operators === undefined) return parseOperand(tokens);
  let value = parseLevel(tokens, level + 1);
  while (operators.includes(tokens[0])) {
    const operator = tokens.shift();
    value = APPLY[operator](value, parseLevel(tokens, operator === '^' ? level : level + 1));
  }
  return value;
}

function parseOperand(tokens) {
  const token = tokens.shift();
  if (token === '-') return -parseLevel(tokens, LEVELS.length - 1); // a power binds more tightly: -2^2 is -4
  if (token === '(') {
    const value = parseLevel(tokens, 0);
    if (tokens.shift() !== ')') throw new Error('A closing parenthesis is missing.');
    return value;
  }
  if (!/^\d/.test(token ?? '')) throw new Error(`A number is missing${token ? ` before "${token}"` : ''}.`);
  return Number(token);
}

export const calculator = defineTool({
  name: 'calculator',
  description: 'Computes an arithmetic expression with + - * / % ^ and parentheses.',
  input: z.object({ expression: z.string() }),
  run: ({ expression }) => calculate(expression),
});
