import { adoptAgents } from '../run/team-facts.ts';
import type { RestorableKind } from '../run/team-restorer.ts';
import { Fleet } from './fleet.ts';
import { type FleetSettings, type FleetState, parseFleetState } from './fleet-state.ts';

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
  override: (fleet, settings) => fleet.change({ settings: { ...fleet.record.settings, ...settings } }),
};

function adoptCode(state: FleetState, code: FleetState): FleetState {
  const { settings: was, roundLimit, resetLimit, messages } = state.fleet;
  const settings = { ...code.fleet.settings, orchestratorName: was.orchestratorName };
  const heard = { status: 'running', histories: { [was.orchestratorName]: messages } } as const;
  return {
    ...state,
    ...adoptAgents(state, code, messages.length > 0 ? heard : {}),
    fleet: {
      ...state.fleet,
      settings,
      roundLimit: Math.max(0, roundLimit + settings.maxRoundCount - was.maxRoundCount),
      resetLimit: Math.max(0, resetLimit + settings.maxResetCount - was.maxResetCount),
    },
  };
}
