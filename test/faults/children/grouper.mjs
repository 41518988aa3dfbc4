// One process of a group: a member that exchanges numbered messages with the others, or the coordinator that saves them all.
import { appendFileSync, existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Workers } from '../../../dist/manager/workers/index.js';
import { openManager, openStorage, say, told } from './common.mjs';

const GROUP = { groupId: 'team', pollMs: 5 };

say({ ready: true });
const { storage, role, names, lanes, timeoutMs } = told();
const manager = openManager(openStorage({ kind: 'sqlite', ...storage }));
let isStopping = false;
const stopped = new Promise((resolve) => {
  process.stdin.once('data', () => {
    isStopping = true;
    resolve();
  });
});

/** Lines of a lane, as far as they are whole. */
function linesOf(path) {
  return existsSync(path) ? readFileSync(path, 'utf8').split('\n').slice(0, -1) : [];
}

class Member {
  sent = {};
  log = {};
  isCut = false;

  constructor(name) {
    this.name = name;
    for (const other of names.filter((each) => each !== name)) {
      this.sent[other] = { count: 0, unconfirmed: [] };
      this.log[other] = [];
    }
  }

  lane(from, to, kind) {
    return join(lanes, `${from}-${to}.${kind}`);
  }

  /** Does one small thing with one other member. Who is being cut neither sends nor confirms, but goes on receiving. */
  live() {
    const others = Object.keys(this.log);
    const other = others[Math.floor(Math.random() * others.length)];
    const choice = Math.random();
    if (choice < 0.4) this.receive(other);
    else if (choice < 0.6) this.trim(other);
    else if (this.isCut) return;
    else if (choice < 0.8) this.confirm(other);
    else this.send(other);
  }

  send(to) {
    const channel = this.sent[to];
    const message = `${this.name}>${to} ${++channel.count}`;
    channel.unconfirmed.push(message);
    appendFileSync(this.lane(this.name, to, 'log'), `${message}\n`);
  }

  receive(from) {
    const next = linesOf(this.lane(from, this.name, 'log'))[this.log[from].length];
    if (next !== undefined) this.log[from].push(next);
  }

  confirm(from) {
    const path = this.lane(from, this.name, 'confirmed');
    writeFileSync(`${path}.new`, `${this.log[from].length}\n`);
    renameSync(`${path}.new`, path);
  }

  trim(to) {
    const channel = this.sent[to];
    const confirmed = Number(linesOf(this.lane(this.name, to, 'confirmed'))[0] ?? 0);
    channel.unconfirmed.splice(0, confirmed - (channel.count - channel.unconfirmed.length));
  }

  async answer(cut, session) {
    this.isCut = true;
    const received = Object.fromEntries(Object.entries(this.log).map(([from, { length }]) => [from, length]));
    const state = { sent: this.sent, log: this.log };
    try {
      say({ outcome: await cut.save({ session, state, sent: this.sent, received }) });
    } finally {
      this.isCut = false;
    }
  }
}

async function runMember() {
  const member = new Member(role);
  const session = await manager.session(role);
  await new Workers(manager).joinGroup(GROUP.groupId, role, {
    pollMs: GROUP.pollMs,
    onCut: (cut) => member.answer(cut, session),
    onError: (error) => say({ error: String(error) }),
  });
  const life = setInterval(() => member.live(), 1);
  say({ open: true });
  await stopped;
  clearInterval(life);
}

async function runCoordinator() {
  say({ open: true });
  while (!isStopping) {
    try {
      say({ saved: (await new Workers(manager).saveGroup(names, { ...GROUP, timeoutMs })).id });
    } catch (error) {
      say({ refused: String(error), code: error.code });
    }
  }
}

await (role === 'coordinator' ? runCoordinator() : runMember());
await manager.close();
say({ finished: true });
process.exit(0);
