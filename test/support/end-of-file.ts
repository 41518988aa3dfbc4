import { afterAll } from 'vitest';
import { cleanUpFile } from './clean-up.ts';

// Runs before each test file, also where files share a process and its modules: a hook of a module would hold for the first file alone.
afterAll(cleanUpFile);
