// Runs one step whose function ends as the parent says.
import { openAnyStorage, openManager, say, told } from './common.mjs';

say({ ready: true });
const { storage: where } = told();
const session = await openManager(await openAnyStorage(where)).session('run');
say({ open: true });
told();
try {
  const result = await session.step('pay', ({ attempt, idempotencyKey }) => {
    say({ entered: attempt, key: idempotencyKey });
    const { fails, answer } = told();
    if (fails) throw new Error('declined');
    return answer;
  });
  say({ result });
} catch ({ code, message }) {
  say({ error: code ?? message });
}
told();
process.exit(0);
