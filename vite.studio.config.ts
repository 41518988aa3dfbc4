import { join } from 'node:path';
import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

// Whoever builds it, for a test or for the package: users get the production build of React.
process.env.NODE_ENV = 'production';

/** Builds the studio into the package: hashed files, no source maps, nothing inline, so that a strict CSP holds. */
export default defineConfig({
  root: join(import.meta.dirname, 'src/studio'),
  plugins: [react({ jsxImportSource: join(import.meta.dirname, 'src/studio/parts') })],
  build: {
    outDir: '../../dist/studio',
    emptyOutDir: true,
    license: { fileName: 'licenses.md' },
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
  server: { proxy: { '/v1': 'http://127.0.0.1:7411' } },
});
