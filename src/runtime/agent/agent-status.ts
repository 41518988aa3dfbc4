import { InvalidInputError } from '../../core/errors.ts';

/** What an agent is doing. */
export type AgentStatus =
  | 'initializing'
  | 'running'
  | 'waiting_for_input'
  | 'waiting_for_approval'
  | 'paused'
  | 'completed'
  | 'error'
  | 'cancelled';

/** Which status may follow which. An agent that ended may be started again: that is what a restore is for. */
const TRANSITIONS: Readonly<Record<AgentStatus, readonly AgentStatus[]>> = {
  initializing: ['running', 'error', 'cancelled'],
  running: ['waiting_for_input', 'waiting_for_approval', 'paused', 'completed', 'error', 'cancelled'],
  waiting_for_input: ['running', 'paused', 'completed', 'error', 'cancelled'],
  waiting_for_approval: ['running', 'paused', 'completed', 'error', 'cancelled'],
  paused: ['initializing', 'running', 'waiting_for_input', 'waiting_for_approval', 'cancelled'],
  completed: ['running'],
  error: ['running', 'cancelled'],
  cancelled: ['running'],
};

/** The status after a change; throws if it may not follow. The same status again is no change. */
export function changeStatus(from: AgentStatus, to: AgentStatus): AgentStatus {
  if (from === to || TRANSITIONS[from].includes(to)) return to;
  throw new InvalidInputError(
    `An agent that is ${from} cannot become ${to}. From ${from} it can become: ${TRANSITIONS[from].join(', ')}.`,
    { details: { from, to } },
  );
}

/** Whether a text is the name of a status. */
export function isAgentStatus(value: unknown): value is AgentStatus {
  return typeof value === 'string' && Object.hasOwn(TRANSITIONS, value);
}
