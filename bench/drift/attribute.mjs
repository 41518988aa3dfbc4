// For a run that is known to have failed: the most likely decisive step, by the form of the run alone.
import { importSource } from '../../scripts/import-source.mjs';

const { InvalidInputError } = await importSource('core/errors.ts');
const { DriftDetector } = await importSource('runtime/drift/drift-detector.ts');
const { isFinishing, readEvent } = await importSource('runtime/drift/step/drift-event.ts');

const MAX_CANDIDATES = 5;
/** An agent that makes at least this part of all events, mostly thoughts and orders, directs the others. */
const DIRECTOR_SHARE = 0.4;
/** Calls that look something up; what they do can be made good. */
const READING_NAME =
  /^(?:get|find|list|search|look|read|view|show|fetch|check|calc|think|query|inspect|open|browse|visit)/i;
/** Each further act is this much less likely to be the decisive one. */
const DECAY_PER_ACT = 0.8;
/** What a step gains that the detector holds against the agent: it decides only between neighbours. */
const EVIDENCE_GAIN = 1.2;
/**
 * Names the most likely decisive step of a run that is known to have failed; undefined for a run in which no agent acts. It
 * goes by form alone (who directs, who acts, what changes something, what was answered with an error), without knowing the
 * right answer.
 */
export function attribute(events) {
  if (!Array.isArray(events)) {
    throw new InvalidInputError(
      `A list of events was expected to attribute, but it is a value of type ${typeof events}.`,
    );
  }
  const read = Array.from(events, (event, index) => readEvent(event, index));
  const run = { events: read, acts: read.filter(isAct) };
  const candidates = candidatesOf(run);
  if (candidates.length === 0) return undefined;
  const held = heldAgainst(events);
  const weighed = candidates.map((candidate) => ({
    ...candidate,
    weight: candidate.weight * (held.has(candidate.event.index) ? EVIDENCE_GAIN : 1),
  }));
  const total = weighed.reduce((sum, { weight }) => sum + weight, 0);
  const steps = weighed
    .toSorted((a, b) => b.weight - a.weight)
    .slice(0, MAX_CANDIDATES)
    .map(({ event, weight, reason }) => ({ step: event.index, agent: event.agent, weight: weight / total, reason }));
  const [first] = steps;
  return first === undefined ? undefined : { ...first, candidates: steps };
}
function candidatesOf(run) {
  if (isDialogue(run)) return dialogueCandidates(run);
  const director = directorOf(run);
  return director === undefined ? workCandidates(run) : directedCandidates(run, director);
}
/** What an agent does, as opposed to what it thinks, is told or is answered. A task that comes with code which is run at once is an attempt. */
function isAct(event, at, events) {
  const isRun = event.kind === 'goal' && hasCode(event) && events[at + 1]?.kind === 'result';
  return isRun || (event.isAgent && ['message', 'call', 'finish'].includes(event.kind));
}
const hasCode = ({ text }) => text.includes('```');
/** A person goes on speaking after the task was set. */
function isDialogue({ events }) {
  const spoken = events.filter(({ kind, isAgent }) => kind === 'message' && !isAgent).length;
  return spoken >= 2 && spoken * 6 >= events.length;
}
/** In a dialogue, what was changed cannot be taken back: the later, the less was done to mend it. */
function dialogueCandidates({ acts }) {
  const changes = acts.filter((event) => event.kind === 'call' && !READING_NAME.test(event.name));
  const steps = changes.length > 0 ? changes : acts;
  return steps.toReversed().map((event, at) => ({
    event,
    weight: DECAY_PER_ACT ** at,
    reason: changes.length > 0 ? 'It changed something, and nothing after it changed it back.' : 'It was said last.',
  }));
}
function directorOf({ events }) {
  const counts = new Map();
  for (const { agent, isAgent } of events) if (isAgent) counts.set(agent, (counts.get(agent) ?? 0) + 1);
  if (counts.size < 2) return undefined;
  const [name, count] = [...counts].reduce((most, next) => (next[1] > most[1] ? next : most));
  const thinks = events.some(({ agent, kind }) => agent === name && (kind === 'thought' || kind === 'plan'));
  return thinks && count >= DIRECTOR_SHARE * events.length ? name : undefined;
}
/**
 * Under a director the workers' first acts set the course, but the very first is rarely the fatal one. A failure that ends a short run
 * is what ended it; before one that ends a long run, the run had lost its way.
 */
function directedCandidates({ events, acts }, director) {
  const last = events.at(-1);
  const isFatal = (event) => event === last && last.isAgent && last.isError;
  const work = events.filter((event) => isFatal(event) || (acts.includes(event) && event.agent !== director));
  return work.map((event, at) => ({
    event,
    weight: DECAY_PER_ACT ** Math.abs(at - FATAL_WORK_ORDINAL) * (isFatal(event) ? FATAL_GAIN : 1),
    reason: isFatal(event)
      ? 'It failed, and the run ended.'
      : `It is act ${at + 1} of those that ${director} directs, where runs take their course.`,
  }));
}
/** A failure that ends the run decides it, unless there were more than eight acts. */
const FATAL_GAIN = 4;
const FATAL_WORK_ORDINAL = 1;
/** Agents that act by themselves go wrong with the first thing they try in earnest: code, or a call. */
function workCandidates({ acts }) {
  const firstTry = Math.max(0, acts.findIndex(isAttempt));
  return acts.map((event, at) => ({
    event,
    weight: DECAY_PER_ACT ** (at < firstTry ? 2 * (firstTry - at) : at - firstTry),
    reason: at === firstTry ? 'It is the first attempt at the task.' : 'It is close to the first attempt at the task.',
  }));
}
function isAttempt(event) {
  return event.kind === 'call' ? !isFinishing(event) : hasCode(event);
}
/** The events that the detector's evidence rests on. */
function heldAgainst(events) {
  const detector = new DriftDetector();
  const held = new Set();
  for (const event of events) {
    for (const { steps } of detector.observe(event).evidence) for (const step of steps) held.add(step);
  }
  return held;
}
