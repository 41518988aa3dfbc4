import { countOf } from '../data/format.ts';
import { Icon } from './icon.tsx';
import type { IconName } from './icons.ts';

type Look = { readonly icon: IconName; readonly word: string; readonly tone: string };

const RUNNING: Look = { icon: 'runs', word: 'Running', tone: 'accent' };
const WAITING: Look = { icon: 'person', word: 'Waiting', tone: 'warn' };
const FAILED: Look = { icon: 'fail', word: 'Failed', tone: 'danger' };
const ENDED: Look = { icon: 'ended', word: 'Ended', tone: 't2' };

const LOOKS: Readonly<Record<string, Look>> = {
  initializing: RUNNING,
  running: RUNNING,
  healthy: { icon: 'ended', word: 'Healthy', tone: 'ok' },
  suspect: { icon: 'warn', word: 'Suspect', tone: 'warn' },
  waiting_for_input: WAITING,
  waiting: WAITING,
  suspended: WAITING,
  timer: { icon: 'pause', word: 'Timer', tone: 't2' },
  answered: { icon: 'check', word: 'Answered', tone: 't2' },
  error: FAILED,
  failed: FAILED,
  drifting: { icon: 'warn', word: 'Drifting', tone: 'warn' },
  paused: { icon: 'pause', word: 'Paused', tone: 't2' },
  stopped: { icon: 'pause', word: 'Stopped', tone: 't2' },
  completed: ENDED,
  ended: ENDED,
  done: ENDED,
};

/** How a status looks; one of the user's own is shown as it is. */
export function lookOf(status: string | undefined): Look {
  if (status === undefined || status === '') return { icon: 'run', word: 'Saved', tone: 't3' };
  return LOOKS[status.toLowerCase()] ?? { icon: 'run', word: status, tone: 't2' };
}

/** A status: icon and word. */
export function Status({ status, more = '' }: { status: string | undefined; more?: string }) {
  const { icon, word, tone } = lookOf(status);
  return (
    <span className={`status ${tone}`} title={status}>
      <Icon name={icon} small />
      {word}
      {more}
    </span>
  );
}

/** Whether all that was read is what its digests say. */
export function Integrity({ damaged }: { damaged: number }) {
  const isWhole = damaged === 0;
  return (
    <span
      className={`status ${isWhole ? 'ok' : 'danger'}`}
      title={
        isWhole
          ? 'Every digest matches'
          : 'Records and chunks that are missing or not what their digests say. "savestate verify --read-data" names them'
      }
    >
      <Icon name={isWhole ? 'shield' : 'error'} small />
      {isWhole ? 'Verified' : `${countOf(damaged, 'part')} bad`}
    </span>
  );
}
