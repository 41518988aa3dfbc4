// Translates the rows of a trace file ({ kind, agent, role, name, args, content, error, t }) into drift events.
const KINDS = { task: 'goal', tool_call: 'call', tool_result: 'result' };
const ROLES = { assistant: 'agent' };

/** @param {readonly Record<string, any>[]} rows */
export function toDriftEvents(rows) {
  return rows.map((row) => ({
    kind: KINDS[row.kind] ?? row.kind,
    agent: row.agent,
    ...(row.role !== undefined && { role: ROLES[row.role] ?? row.role }),
    ...(row.name !== undefined && { name: row.name }),
    ...(row.args !== undefined && { input: row.args }),
    ...(row.content !== undefined && { text: row.content }),
    ...(row.error !== undefined && { isError: row.error === true || typeof row.error === 'string' }),
    ...(typeof row.t === 'number' && { at: row.t }),
  }));
}
