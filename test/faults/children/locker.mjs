// Holds the write lock of a database until it gets another line.
import { openDatabase } from '../../../dist/storage/database/sqlite-driver.js';
import { say, told } from './common.mjs';

say({ ready: true });
const { path } = told();
const db = openDatabase(path);
db.exec('PRAGMA busy_timeout=5000');
db.exec('BEGIN IMMEDIATE');
say({ held: true });
told();
db.exec('COMMIT');
db.close();
say({ released: true });
