import { expect, test } from 'vitest';
import { z } from 'zod';
import { scriptedModel } from '../../testing/model/scripted-model.ts';
import { StandardAgent } from '../agent/standard-agent.ts';
import { defineTool } from '../agent/tool.ts';
import { createPolicy, findOperation } from '../run/run-options.ts';
import { Fleet } from './fleet.ts';

const tool = (name: string) => ({ kind: 'tool', name }) as const;
const CODE = { kind: 'code', name: 'runner' } as const;

test('[fleet.6] require_approval_for names tools, what tools do, code, and patterns of them', () => {
  const policy = createPolicy(
    { require_approval_for: ['code_execution', 'external_api_calls', 'delete_file', 'send_*'] },
    { fetch_page: 'external_api_calls' },
  );
  expect(findOperation(policy, CODE)).toBe('code_execution');
  expect(findOperation(policy, tool('fetch_page'))).toBe('external_api_calls');
  expect(findOperation(policy, tool('delete_file'))).toBe('delete_file');
  expect(findOperation(policy, tool('send_mail'))).toBe('send_mail');
  expect(findOperation(policy, tool('resend_mail'))).toBeUndefined();
  expect(findOperation(policy, tool('web_search'))).toBeUndefined();
});

test('[fleet.6] trusted_operations need nobody: also where a pattern would ask', () => {
  const policy = createPolicy(
    { require_approval_for: ['*', 'write_file'], trusted_operations: ['web_search', 'read_*', 'data_analysis'] },
    { average: 'data_analysis', write_file: 'data_analysis' },
  );
  for (const name of ['web_search', 'read_file', 'average']) expect(findOperation(policy, tool(name))).toBeUndefined();
  expect(findOperation(policy, tool('anything'))).toBe('anything');
  expect(findOperation(policy, CODE)).toBe('code_execution');
  expect(findOperation(policy, tool('write_file'))).toBe('write_file');
});

test('[fleet.6] enabled: false asks nobody, and so do no settings', () => {
  const off = createPolicy({ enabled: false, require_approval_for: ['*'] });
  expect(findOperation(off, CODE)).toBeUndefined();
  expect(findOperation(createPolicy(undefined), CODE)).toBeUndefined();
});

test('[fleet.6] settings that name no operations ask for those that a workflow.yaml asks for, and give people as long', () => {
  const policy = createPolicy({ auto_reject_on_timeout: true }, { fetch_page: 'external_api_calls' });
  expect(findOperation(policy, tool('fetch_page'))).toBe('external_api_calls');
  expect(findOperation(policy, CODE)).toBe('code_execution');
  expect(policy.approvalTimeoutMs).toBe(300_000);
  const trusting = createPolicy({ trusted_operations: ['code_execution'] });
  expect(findOperation(trusting, CODE)).toBeUndefined();
  expect(findOperation(createPolicy({ require_approval_for: [] }), CODE)).toBeUndefined();
});

test('[fleet.6] one operation in both lists is refused', () => {
  expect(() => createPolicy({ require_approval_for: ['pay'], trusted_operations: ['pay'] })).toThrow(
    '"pay" is in require_approval_for and in trusted_operations. Decide for one of them.',
  );
});

test('[fleet.6] a pattern means what it says, and dots are dots', () => {
  const policy = createPolicy({ require_approval_for: ['a.c*'] });
  expect(findOperation(policy, tool('a.cd'))).toBe('a.cd');
  expect(findOperation(policy, tool('abcd'))).toBeUndefined();
  const many = createPolicy({ require_approval_for: [`${'*a'.repeat(20)}*b`] });
  expect(findOperation(many, tool('a'.repeat(60)))).toBeUndefined();
});

test.each([
  [{ humanInTheLoop: { require_approval_for: ['delete_file'] } }, '"delete_file" is nearly "delete_files"'],
  [{ humanInTheLoop: { require_approval_for: ['Delete_Files'] } }, '"Delete_Files" is nearly "delete_files"'],
  [
    { humanInTheLoop: { require_approval_for: ['file_operations'] }, operations: { delete_file: 'file_operations' } },
    '"delete_file" is nearly "delete_files"',
  ],
  [
    { humanInTheLoop: {}, operations: { delete_files: 'file_operation' } },
    '"file_operation" is nearly "file_operations"',
  ],
  [
    { humanInTheLoop: { enabled: false }, operations: { delete_files: 'File_Operations' } },
    '"File_Operations" is nearly "file_operations"',
  ],
  [
    { humanInTheLoop: { require_approval_for: ['erasing'] }, operations: { delete_files: 'erasin' } },
    '"erasin" is nearly "erasing"',
  ],
  [{ humanInTheLoop: {}, operations: { delete_files: '' } }, 'operations'],
  [{ humanInTheLoop: { require_approval_for: ['delete_*', 'pay', 'file_operations'] } }, undefined],
  [{ humanInTheLoop: { require_approval_for: ['erase'] }, operations: { delete_files: 'erase' } }, undefined],
])(
  '[input.1] a rule for a tool that no agent has, but nearly one, is refused, and so is what it does: %j',
  (options, problem) => {
    const model = scriptedModel(() => 'x', { id: 'm' });
    const clear = defineTool({ name: 'delete_files', description: 'x', input: z.object({}), run: () => 0 });
    const make = () =>
      new Fleet({ agents: [new StandardAgent({ name: 'a', model, tools: [clear] })], model, ...options });
    if (problem === undefined) expect(make).not.toThrow();
    else expect(make).toThrow(problem);
  },
);
