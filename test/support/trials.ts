/** How many trials a property gets: a tenth in `npm test`, all of them in `npm run test:faults`. */
export function trials(full: number): number {
  return process.env.SAVESTATE_TRIALS === 'full' ? full : Math.ceil(full / 10);
}
