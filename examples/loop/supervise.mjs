// Keeps the process of an agent alive, as systemd, pm2 or Kubernetes would: starts it again when it crashes, falls silent or asks
// for a successor, but not for ever. Copy what you need.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';

/** The exit code by which an agent with `refresh: 'exit'` asks for a new process at once. */
export const REFRESH = 75;

/** A process that gives no sign of life within `startMs`, or then for `hangMs`, hangs. */
const DEFAULTS = {
  startMs: 60_000,
  hangMs: 60_000,
  maxRestarts: 5,
  windowMs: 600_000,
  backoffMs: 1000,
  stopMs: 10_000,
};

/**
 * Runs a command until it ends with 0, is stopped, or fails once more than `maxRestarts` times within `windowMs`.
 * `onEvent` hears `{ kind: 'ended', why }`, `onMessage` what the process sends: the loop's heartbeats are its signs of life.
 */
export function supervise(command, args, options = {}) {
  const { startMs, hangMs, maxRestarts, windowMs, backoffMs, stopMs, onEvent, onMessage } = { ...DEFAULTS, ...options };
  const stopping = new AbortController();
  let child;

  async function runOnce() {
    let [isHung, hasLived] = [false, false];
    child = spawn(command, args, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
    const process = child;
    const endHung = () => {
      isHung = true;
      process.kill('SIGKILL');
    };
    let hang = setTimeout(endHung, startMs);
    let kill;
    const stop = () => {
      process.kill('SIGTERM');
      kill = setTimeout(() => process.kill('SIGKILL'), stopMs);
    };
    process.on('message', (message) => {
      onMessage?.(message);
      if (message?.kind !== 'heartbeat') return;
      hasLived = true;
      clearTimeout(hang);
      hang = setTimeout(endHung, hangMs);
    });
    stopping.signal.addEventListener('abort', stop);
    const [code] = await once(process, 'exit').catch(() => [null]); // a command that cannot be started has crashed
    stopping.signal.removeEventListener('abort', stop);
    clearTimeout(hang);
    clearTimeout(kill);
    if (stopping.signal.aborted) return 'stopped';
    if (isHung) return 'hang';
    if (code === 0) return 'done';
    // One that asks for a successor before it gave a sign of life would do so for ever.
    return code === REFRESH && hasLived ? 'refresh' : 'crash';
  }

  async function keepAlive() {
    let failures = [];
    for (let restarts = 0; ; restarts++) {
      const why = await runOnce();
      onEvent?.({ kind: 'ended', why });
      if (why === 'done' || why === 'stopped') return { status: why, restarts };
      if (why === 'refresh') continue;
      failures = [...failures.filter((atMs) => performance.now() - atMs < windowMs), performance.now()];
      if (failures.length > maxRestarts) return { status: 'gave_up', restarts };
      const pauseMs = Math.min(60_000, backoffMs * 2 ** (failures.length - 1));
      await sleep(pauseMs, undefined, { signal: stopping.signal }).catch(() => undefined);
      if (stopping.signal.aborted) return { status: 'stopped', restarts };
    }
  }

  const ended = keepAlive();
  return {
    /** How it ended. */
    ended,
    send: (message) => child?.connected === true && child.send(message, () => undefined),
    stop: () => {
      stopping.abort();
      return ended;
    },
  };
}
