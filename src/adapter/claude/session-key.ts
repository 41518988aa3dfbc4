import type { SessionKey } from '@anthropic-ai/claude-agent-sdk';
import { checkOptions, type OptionCheck, string } from '../../core/options.ts';
import { parseSessionId, type SessionId } from '../../core/record/id.ts';
import { decodePart, encodePart } from '../session-name.ts';

const PREFIX = 'claude';

const filled: OptionCheck = (value) => string(value) ?? (value === '' ? 'must not be empty' : undefined);

/** The session of a transcript, main or of a subagent: one to one. Throws for a key that is none. */
export function sessionOf(key: SessionKey): SessionId {
  checkOptions(
    key,
    { projectKey: { required: filled }, sessionId: { required: filled }, subpath: filled },
    'a session key',
  );
  const { subpath } = key;
  return parseSessionId(
    `${belowProject(key.projectKey)}${encodePart(key.sessionId)}${subpath === undefined ? '' : `/${encodePart(subpath)}`}`,
  );
}

/** What the sessions of a project begin with. */
export function belowProject(projectKey: string): string {
  return `${PREFIX}/${encodePart(projectKey)}/`;
}

/** What the sessions of a main transcript's subagents begin with. */
export function belowSession(key: SessionKey): string {
  return `${sessionOf({ projectKey: key.projectKey, sessionId: key.sessionId })}/`;
}

/** The last part of a session's id below a prefix; undefined for what is further below. */
export function nameBelow(sessionId: SessionId, prefix: string): string | undefined {
  const rest = sessionId.slice(prefix.length);
  return rest.includes('/') ? undefined : decodePart(rest);
}
