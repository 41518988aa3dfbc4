// Holds the write lock of a database until it gets another line.
import { importSource } from '../../../scripts/import-source.mjs';
import { say, told } from './common.mjs';

const { openDatabase } = await importSource('storage/database/sqlite-driver.ts');
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
