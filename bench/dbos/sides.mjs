import { DBOS } from '@dbos-inc/dbos-sdk';
import { CheckpointManager } from '../../dist/index.js';
import { defineWorkflow, WorkflowExecutor } from '../../dist/runtime/workflow/index.js';
import { PostgresCheckpointStorage } from '../../dist/storage/postgres/index.js';

export const DBOS_STEP = 'DBOS runStep';
export const SESSION_STEP = 'session.step';
export const WORKFLOW_STEP = 'workflow step';

/**
 * The sides by name. `open(url)` connects; the `run(id, count, work)` that it resolves to does that many steps, each of which calls
 * `work(at)`, under a name that survives the process; one that died is resumed by the next process that opens and runs it.
 */
export const SIDES = { [DBOS_STEP]: openDbos, [SESSION_STEP]: openSession, [WORKFLOW_STEP]: openWorkflow };

async function openDbos(url) {
  let work;
  const loop = async (count) => {
    for (let at = 0; at < count; at++) await DBOS.runStep(async () => work(at), { name: 'step' });
  };
  const workflow = DBOS.registerWorkflow(loop, { name: 'loop' });
  DBOS.setConfig({ name: 'bench', systemDatabaseUrl: url, logLevel: 'error', runAdminServer: false });
  return {
    run: async (id, count, given) => {
      work = given;
      if (!DBOS.isInitialized()) await DBOS.launch(); // begins to resume what died
      await (await DBOS.startWorkflow(workflow, { workflowID: id })(count)).getResult();
    },
    close: () => DBOS.shutdown(),
  };
}

function openManager(url, tenant) {
  return new CheckpointManager({ storage: new PostgresCheckpointStorage({ connectionString: url, tenant }) });
}

async function openSession(url) {
  const manager = openManager(url, 'session');
  return {
    run: async (id, count, work) => {
      const session = await manager.session(id);
      for (let at = 0; at < count; at++) await session.step('step', () => work(at));
      await session.close();
    },
    close: () => manager.close(),
  };
}

async function openWorkflow(url) {
  const manager = openManager(url, 'workflow');
  return {
    run: async (id, count, work) => {
      const steps = Array.from({ length: count }, (_, at) => ({ id: `s${at}`, function: 'step', input: at }));
      const registry = { functions: { step: (at) => work(at) } };
      const executor = new WorkflowExecutor({ manager, registry });
      const { status } = await executor.run({
        workflow: defineWorkflow({ workflow: { name: 'loop' }, steps }),
        sessionId: id,
      });
      if (status !== 'completed') throw new Error(`The workflow is ${status}.`);
    },
    close: () => manager.close(),
  };
}
