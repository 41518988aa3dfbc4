// Holds the write lock of a database until it gets another line.
import { createRequire } from 'node:module';
import { say, told } from './common.mjs';

const { DatabaseSync } =
  process.getBuiltinModule('node:sqlite') ?? createRequire(import.meta.url)('@photostructure/sqlite');

say({ ready: true });
const { path } = told();
const db = new DatabaseSync(path);
db.exec('PRAGMA busy_timeout=5000');
db.exec('BEGIN IMMEDIATE');
say({ held: true });
told();
db.exec('COMMIT');
db.close();
say({ released: true });
