import { cpSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { DIST } from './cli.ts';
import { newFolder } from './folder.ts';

const EXAMPLE = resolve(import.meta.dirname, '../../../examples/team');

/** A folder with the example team, as somebody who installed the package would have it. */
export function createTeamFolder(config = 'team: team.yaml\n'): string {
  const folder = newFolder();
  mkdirSync(join(folder, 'node_modules'));
  symlinkSync(dirname(DIST), join(folder, 'node_modules', 'savestate'));
  cpSync(EXAMPLE, folder, { recursive: true });
  writeFileSync(join(folder, 'savestate.yaml'), `storage: sqlite:.savestate/checkpoints.db\n${config}`);
  return folder;
}

/** A team with somebody who has to be asked. */
export const TEAM_WITH_BOSS = `
agents:
  - name: planner
    system_message: You plan trips.
    model: offline-travellers
  - name: boss
    human_input_mode: ALWAYS
registry: travellers.mjs
speaker_selection: round_robin
`;
