// Backs a storage up, or follows it, and dies at its nth commit: before it, or after it and before the reply.
import { backup, replicate } from '../../../dist/manager/backup/index.js';
import { die, openAnyStorage, say, told } from './common.mjs';

say({ ready: true });
const { from, to, follows, dieAt, isAfter } = told();
const source = await openAnyStorage(from);
const target = await openAnyStorage(to);
let commits = 0;
const mortal = new Proxy(target, {
  get: (inner, key) => {
    const value = Reflect.get(inner, key);
    if (typeof value !== 'function') return value;
    if (key !== 'commit' && key !== 'deleteCheckpoints') return value.bind(inner);
    return async (...given) => {
      const isLast = ++commits === dieAt;
      if (isLast && !isAfter) die();
      const result = await value.apply(inner, given);
      if (isLast) die();
      return result;
    };
  },
});
const stop = AbortSignal.timeout(600_000);
const options = { mirror: true, signal: stop };
say(await (follows ? replicate(source, mortal, { ...options, intervalMs: 5 }) : backup(source, mortal, options)));
await source.close();
await target.close();
