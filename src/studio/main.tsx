import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import './theme/tokens.css';
import './theme/studio.css';
import './theme/session.css';
import './theme/screens.css';
import { openAccess } from './app/access.ts';
import { App } from './app/app.tsx';
import { live } from './data/live.ts';

const root = document.getElementById('root');
if (root !== null) {
  // The token comes in the fragment, which no server and no log sees; it is swapped for a cookie before anything is asked.
  await openAccess();
  void live.run(new AbortController().signal);
  createRoot(root).render(
    <StrictMode>
      <App />
    </StrictMode>,
  );
}
