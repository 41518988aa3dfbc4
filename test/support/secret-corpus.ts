/** Fake secrets are put together here, so that no scanner takes these files for a leak. */
export const fake = (...parts: string[]) => parts.join('');
const ALNUM = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';
const HEX = '0123456789abcdef';

/** Fixed pseudo-random characters. */
export function chars(count: number, alphabet = ALNUM, seed = 7): string {
  let state = seed;
  return Array.from({ length: count }, () => {
    state = (state * 1103515245 + 12345) % 2147483648;
    return alphabet.charAt(Math.floor((state / 2147483648) * alphabet.length));
  }).join('');
}
export const hex = (count: number) => chars(count, HEX);

/** Name of the format, the text that is whole a token, and what must not be left of it. */
export const TOKENS: [string, string][] = [
  ['openai legacy', fake('sk', '-', chars(20), 'T3BlbkFJ', chars(20))],
  ['openai project', fake('sk-', 'proj-', chars(40), '_', chars(30), '-', chars(30))],
  ['openai service account', fake('sk-', 'svcacct-', chars(60))],
  ['anthropic', fake('sk-', 'ant-', 'api03-', chars(90), '-', chars(6), 'AA')],
  ['openrouter', fake('sk-', 'or-v1-', hex(64))],
  ['google api', fake('AI', 'za', chars(33), '-_')],
  ['google oauth', fake('ya', '29.', 'a0', chars(60))],
  ['google client secret', fake('GOC', 'SPX-', chars(28))],
  ['aws access key', fake('AK', 'IA', chars(16, 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'))],
  ['aws session key', fake('AS', 'IA', chars(16, 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'))],
  ['github personal', fake('gh', 'p_', chars(36))],
  ['github oauth', fake('gh', 'o_', chars(36))],
  ['github app', fake('gh', 's_', chars(36))],
  ['github fine-grained', fake('github', '_pat_', chars(22), '_', chars(59))],
  ['gitlab', fake('gl', 'pat-', chars(20))],
  ['slack bot', fake('xo', 'xb-', '123456789012-123456789012-', chars(24))],
  ['slack user', fake('xo', 'xp-', '123456789012-123456789012-', hex(32))],
  ['slack app', fake('xa', 'pp-1-', 'A0', chars(9), '-123456789012-', hex(64))],
  ['stripe live', fake('sk', '_live_', chars(24))],
  ['stripe restricted', fake('rk', '_live_', chars(24))],
  ['stripe webhook', fake('wh', 'sec_', chars(32))],
  ['twilio key', fake('S', 'K', hex(32))],
  ['twilio account', fake('A', 'C', hex(32))],
  ['sendgrid', fake('S', 'G.', chars(22), '.', chars(43))],
  ['npm', fake('np', 'm_', chars(36))],
  ['pypi', fake('py', 'pi-AgEIcHlwaS5vcmc', chars(60))],
  ['hugging face', fake('h', 'f_', chars(34))],
  ['jwt', fake('ey', 'JhbGciOiJIUzI1NiJ9', '.ey', 'JzdWIiOiIxMjM0NTY3ODkwIn0', '.', chars(43))],
  ['discord bot', fake('MTA', chars(21), '.G', chars(5), '.', chars(38))],
  ['telegram bot', fake('1234', '56789', ':A', 'A', chars(33))],
  ['shopify', fake('shp', 'at_', hex(32))],
  ['digitalocean', fake('do', 'p_v1_', hex(64))],
  ['databricks', fake('da', 'pi', hex(32))],
  ['linear', fake('lin', '_api_', chars(40))],
  ['notion old', fake('sec', 'ret_', chars(43))],
  ['notion', fake('nt', 'n_', chars(46))],
  ['mailgun', fake('ke', 'y-', hex(32))],
  ['mailchimp', fake(hex(32), '-us', '12')],
  ['square', fake('sq0', 'atp-', chars(22))],
  ['groq', fake('gs', 'k_', chars(52))],
  ['replicate', fake('r', '8_', chars(37))],
  ['perplexity', fake('pp', 'lx-', chars(48))],
  ['xai', fake('xa', 'i-', chars(80))],
  ['pinecone', fake('pc', 'sk_', chars(5), '_', chars(60))],
  ['langsmith', fake('lsv2', '_pt_', hex(32), '_', hex(10))],
  ['tavily', fake('tv', 'ly-', 'dev-', chars(32))],
  ['vault', fake('hv', 's.', chars(90))],
  ['docker', fake('dckr', '_pat_', chars(27))],
  ['grafana', fake('gl', 'sa_', chars(32), '_', hex(8))],
  ['tailscale', fake('ts', 'key-auth-', chars(17), '-', chars(32))],
  ['heroku', fake('HR', 'KU-', chars(36))],
  ['dropbox', fake('s', 'l.', chars(70), '-', chars(60))],
  ['airtable', fake('pa', 't', chars(14), '.', hex(64))],
  ['firebase', fake('APA', '91b', chars(134))],
  ['doppler', fake('d', 'p.pt.', chars(43))],
  ['fireworks', fake('f', 'w_', chars(24))],
  ['elevenlabs', fake('s', 'k_', hex(48))],
  ['voyage', fake('p', 'a-', chars(43))],
  ['jina', fake('ji', 'na_', hex(32), chars(28))],
  ['anyscale', fake('ese', 'cret_', chars(26))],
  ['cloudflare origin', fake('v', '1.0-', hex(24), '-', hex(146))],
  ['neon', fake('na', 'pi_', chars(64, 'abcdefghijklmnopqrstuvwxyz0123456789'))],
  ['vercel', fake('vc', 'p_', chars(32))],
  ['aws session', fake('IQoJ', 'b3JpZ2lu', chars(300))],
  ['twitter', fake('A'.repeat(21), 'b', chars(80))],
  ['facebook', fake('EA', 'A', 'G', chars(120))],
  ['linkedin', fake('A', 'QX', chars(180), '-', chars(100))],
  ['linkedin secret', fake('WPL', '_AP1.', chars(16), '.', chars(8))],
  [
    'encoded key',
    Buffer.from(fake('sk-', 'ant-', 'api03-', chars(91)))
      .toString('base64')
      .replaceAll('=', ''),
  ],
];

/** The ways a token gets into a state. */
export const CARRIERS: [string, (token: string) => string][] = [
  ['message', (token) => `Sure, use ${token} for that, please. It works until Friday.`],
  ['end of sentence', (token) => `The key is ${token}.`],
  ['tool arguments', (token) => JSON.stringify({ url: 'https://api.example.com', value: token, retries: 3 })],
  ['arguments in arguments', (token) => JSON.stringify({ input: JSON.stringify({ lines: `a\n${token}\nb` }) })],
  ['header', (token) => `GET / HTTP/1.1\r\nHost: example.com\r\nX-Thing: ${token}\r\nAccept: */*`],
  ['address', (token) => `https://example.com/v1/items?limit=10&q=${encodeURIComponent(token)}&sort=asc`],
  [
    'error stack',
    (token) => `Error: 401 for "${token}"\n    at fetch (/app/node_modules/x/index.js:12:34)\n    at main`,
  ],
  ['shell', (token) => `$ export SOME_THING=${token} && ./run.sh --verbose`],
  ['code', (token) => `const client = new Client({ x: '${token}' });`],
  ['markdown', (token) => `Set it to \`${token}\` (see **docs**).`],
];
