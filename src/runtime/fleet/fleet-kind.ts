import { adoptAgents } from '../run/team-facts.ts';
import type { RestorableKind } from '../run/team-restorer.ts';
import { Fleet } from './fleet.ts';
import { changeSettings } from './fleet-options.ts';
import { type FleetRecord, type FleetSettings, type FleetState, parseFleetState } from './fleet-state.ts';

/** How fleets are compared with their checkpoints, and made of them. */
export const FLEET: RestorableKind<FleetState, Fleet, FleetSettings> = {
  noun: 'fleet',
  parse: parseFleetState,
  settingsOf: ({ fleet: { settings } }) => {
    const { orchestratorName: _, callbacks: __, ...rest } = settings; // a name, and what the caller is told
    return rest;
  },
  adopt: adoptCode,
  findMissing: ({ fleet }, registry) => {
    const { orchestratorName: name, modelId } = fleet.settings;
    if (modelId === null || registry.hasModel(modelId)) return [];
    const text = `The model "${modelId}" of "${name}" is not registered.`;
    return [{ path: '$.fleet.settings.model', kind: 'missing', text }];
  },
  make: (agents, registry, { fleet: { settings } }) => new Fleet({ agents, registry, settings }),
  override: (fleet, changes) =>
    fleet.change(withSettings(fleet.record, changeSettings(fleet.record.settings, changes))),
};

function adoptCode(state: FleetState, code: FleetState): FleetState {
  const { settings: was, messages } = state.fleet;
  const settings = { ...code.fleet.settings, orchestratorName: was.orchestratorName };
  const heard = { status: 'running', histories: { [was.orchestratorName]: messages } } as const;
  return {
    ...state,
    ...adoptAgents(state, code, messages.length > 0 ? heard : {}),
    fleet: { ...state.fleet, ...withSettings(state.fleet, settings) },
  };
}

/** Other settings, and the counts at which a fleet ends by them. */
function withSettings({ settings: was, roundLimit, resetLimit }: FleetRecord, settings: FleetSettings) {
  return {
    settings,
    roundLimit: Math.max(0, roundLimit + settings.maxRoundCount - was.maxRoundCount),
    resetLimit: Math.max(0, resetLimit + settings.maxResetCount - was.maxResetCount),
  };
}
