import { anything, checkOptions, type OptionChecks } from '../../core/options.ts';
import { PARTS } from '../run/run-options.ts';
import { BRANCH, holdBranch, type InterveneOptions, type InterveneResult, type RepairParts } from './hold-branch.ts';
import { INTERVENTION_KEYS, type Intervention } from './intervention.ts';
import { locateTarget } from './locate-target.ts';

// What is changed is checked where it is read.
const REQUEST: OptionChecks<InterveneOptions> = {
  ...BRANCH,
  ...Object.fromEntries(INTERVENTION_KEYS.map((key) => [key, anything])),
};

/**
 * Changes one thing of a conversation (a message, a prompt, a model, a tool's answer) and goes on from there as a new branch: what came
 * after it is not in the branch, every private copy has the change, and everybody's count of replies begins anew. The original stays as it is.
 */
export async function intervene(
  parts: RepairParts,
  checkpoint: string,
  request: Intervention & InterveneOptions,
): Promise<InterveneResult> {
  checkOptions(parts, PARTS, 'intervene()');
  checkOptions(request, REQUEST, 'intervene()');
  return holdBranch(parts, await locateTarget(parts.checkpoints, checkpoint, request), request);
}
