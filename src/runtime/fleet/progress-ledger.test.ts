import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { wordThought } from '../../../test/fleet/crew.ts';
import { processorMs } from '../../../test/support/clock.ts';
import { parseProgressLedger } from './progress-ledger.ts';

const TEAM = ['researcher', 'Web Surfer', 'coder'];
const GOOD = wordThought({ speaker: 'coder', say: 'Say "hi" {to} them.' });

const LEDGER = {
  is_request_satisfied: { reason: 'because false', answer: false },
  is_in_loop: { reason: 'because false', answer: false },
  is_progress_being_made: { reason: 'because true', answer: true },
  next_speaker: { reason: 'because coder', answer: 'coder' },
  instruction_or_question: { reason: 'because Say "hi" {to} them.', answer: 'Say "hi" {to} them.' },
};

describe('what is understood', () => {
  test.each([
    ['JSON alone', GOOD],
    ['JSON over several lines', JSON.stringify(JSON.parse(GOOD), null, 2)],
    ['words around it', `Let me think about {this}.\n${GOOD}\nThat is all.`],
    ['a fence', `\`\`\`json\n${GOOD}\n\`\`\``],
    ['a comma too many', GOOD.replace(/\}$/, ',}')],
    ['a comment', JSON.stringify(JSON.parse(GOOD), null, 2).replace('{\n', '{\n  // my view\n')],
    [
      "Python's booleans",
      GOOD.replaceAll('"answer":true', '"answer":True').replaceAll('"answer":false', '"answer":False'),
    ],
    [
      'booleans as texts',
      GOOD.replaceAll('"answer":true', '"answer":"Yes"').replaceAll('"answer":false', '"answer":"no"'),
    ],
    ['other keys besides', GOOD.replace('{', '{"thought":"hm",')],
    ['keys in another style', GOOD.replace('is_in_loop', 'isInLoop').replace('next_speaker', 'Next Speaker')],
    ['a name in another case', GOOD.replace('"answer":"coder"', '"answer":"CODER"')],
    ['a name in a sentence', GOOD.replace('"answer":"coder"', '"answer":"The coder, please."')],
  ])('[fleet.2] %s', (_, text) => {
    expect(parseProgressLedger(text, TEAM).ledger).toEqual(LEDGER);
  });

  test('[fleet.2] single quotes and bare keys', () => {
    const text = `{is_request_satisfied: {reason: 'no', answer: false}, is_in_loop: false, is_progress_being_made: {answer: true}, next_speaker: 'Web Surfer', instruction_or_question: 'Go.'}`;
    expect(parseProgressLedger(text, TEAM).ledger).toEqual({
      is_request_satisfied: { reason: 'no', answer: false },
      is_in_loop: { reason: '', answer: false },
      is_progress_being_made: { reason: '', answer: true },
      next_speaker: { reason: '', answer: 'Web Surfer' },
      instruction_or_question: { reason: '', answer: 'Go.' },
    });
  });

  test('[fleet.2] whoever is satisfied need not say who goes on', () => {
    const text =
      '{"is_request_satisfied": true, "is_in_loop": false, "is_progress_being_made": true, "next_speaker": null}';
    expect(parseProgressLedger(text, TEAM).ledger).toMatchObject({
      is_request_satisfied: { answer: true },
      next_speaker: { answer: '' },
    });
  });
});

describe('what is not', () => {
  test.each([
    ['', 'There is no JSON object with the keys of the ledger in your answer.'],
    ['[1, 2]', 'There is no JSON object with the keys of the ledger in your answer.'],
    ['{"answer": 42}', 'There is no JSON object with the keys of the ledger in your answer.'],
    [GOOD.slice(0, -5), 'There is no JSON object with the keys of the ledger in your answer.'],
    [GOOD.replace('"is_in_loop"', '"other"'), '"is_in_loop" is missing.'],
    [GOOD.replace('"answer":true', '"answer":"perhaps"'), '"is_progress_being_made" cannot be "perhaps".'],
    [
      GOOD.replace('"answer":"coder"', '"answer":"the researcher or the coder"'),
      '"next_speaker" cannot be "the researcher or the coder". Choose one of: researcher, Web Surfer, coder.',
    ],
    [GOOD.replace(/"answer":"Say.*?"\}\}$/, '"answer":"  "}}'), '"instruction_or_question" cannot be "  ".'],
  ])('[fleet.2] %s', (text, problem) => {
    expect(parseProgressLedger(text, TEAM).problems).toEqual([problem]);
  });

  test('[fleet.2] every problem is named at once', () => {
    expect(parseProgressLedger('{"is_in_loop": false}', TEAM).problems).toHaveLength(4);
  });

  test('[fleet.2] whatever a model says, there is a ledger or a problem', () => {
    const piece = fc.constantFrom(
      '{',
      '}',
      '"',
      ':',
      ',',
      '[',
      ']',
      '\\',
      "'",
      '&a',
      '*a',
      'is_in_loop',
      'true',
      '\n',
      '// ',
    );
    const text = fc.oneof(
      fc.string(),
      fc.array(piece, { maxLength: 60 }).map((parts) => parts.join('')),
    );
    fc.assert(
      fc.property(text, (said) => {
        const { ledger, problems } = parseProgressLedger(said, TEAM);
        expect((ledger === undefined) === (problems !== undefined && problems.length > 0)).toBe(true);
      }),
    );
  });

  test.each([
    ['{ ', '} '],
    ['- ', ''],
    ['[ ', '] '],
  ])('[fleet.2] what is nested without end, by %j, is no ledger', (open, close) => {
    const text = `{ a: ${open.repeat(2_000)}${close.repeat(2_000)}}`;
    expect(parseProgressLedger(text, ['a']).problems).toHaveLength(1); // it took minutes
  });

  test('[fleet.2] a text of nothing but braces takes no time', () => {
    const startedAtMs = processorMs();
    expect(parseProgressLedger('{'.repeat(20_000), TEAM).problems).toHaveLength(1);
    expect(processorMs() - startedAtMs).toBeLessThan(2_000);
  });
});
