import { describe, expect, test } from 'vitest';
import { CARRIERS, chars, fake, hex, TOKENS } from '../../../test/support/secret-corpus.ts';
import { createRedactor } from './redaction.ts';

/** A secret that only its surroundings give away: the text, and the part that must not be left. */
const password = fake('hunt', 'er2', '-Xy');
const opaque = chars(32);
const base64Key = `${chars(60)}+${chars(24)}/==`;
const pem = (kind: string) =>
  [
    `-----BEGIN ${kind}PRIVATE`,
    ` KEY-----\n`,
    `${chars(64)}\n${chars(64)}\n${chars(20)}=\n`,
    `-----END ${kind}PRIVATE KEY-----`,
  ].join('');
const CONTEXTS: [string, string, string][] = [
  ['postgres', `Connecting to postgres://app:${password}@db.internal:5432/main failed`, password],
  ['mysql', `mysql://root:${password}@127.0.0.1/shop`, password],
  ['mongodb', `mongodb+srv://app:${password}@cluster0.abc.mongodb.net/?retryWrites=true`, password],
  ['redis without user', `redis://:${password}@cache:6379/0`, password],
  ['amqp', `amqps://svc:${password}@mq.example.com/vhost`, password],
  ['basic auth in an address', `fetch https://deploy:${password}@git.example.com/x.git`, password],
  ['password with an @', `postgres://app:p@ss${password}@db/main`, password],
  ['bearer header', `Authorization: Bearer ${opaque}`, opaque],
  ['bearer in curl', `curl -H "Authorization: Bearer ${opaque}" https://example.com`, opaque],
  [
    'basic header',
    `Authorization: Basic ${Buffer.from(`user:${password}`).toString('base64')}`,
    Buffer.from(`user:${password}`).toString('base64'),
  ],
  ['bearer in prose', `I sent bearer ${opaque} and got a 401`, opaque],
  ['api key header', `X-Api-Key: ${opaque}\nAccept: text/plain`, opaque],
  ['cookie header', `GET /\nCookie: sid=${opaque}; theme=dark\nAccept: */*`, opaque],
  ['aws secret in an ini', `[default]\naws_secret_access_key = wJalr/UtnFEMI/K7MDENG+${chars(16)}`, chars(16)],
  ['aws secret in the environment', `AWS_SECRET_ACCESS_KEY=${chars(13)}/${chars(12)}+${chars(13)}`, chars(13)],
  [
    'azure storage',
    `DefaultEndpointsProtocol=https;AccountName=x;AccountKey=${base64Key};EndpointSuffix=core.windows.net`,
    base64Key,
  ],
  [
    'azure sas',
    `https://x.blob.core.windows.net/c?sv=2022-11-02&se=2026-01-01&sig=${encodeURIComponent(`${chars(43)}=`)}`,
    chars(43),
  ],
  [
    'azure service bus',
    `Endpoint=sb://x.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey=${chars(43)}=`,
    chars(43),
  ],
  ['sql server', `Server=db;Database=main;User Id=sa;Password=${password};Encrypt=true`, password],
  ['sql server short', `Server=db;Uid=sa;Pwd=${password};`, password],
  ['env file', `PORT=3000\nDB_PASSWORD=${password}\nDEBUG=1`, password],
  ['env file key', `COHERE_API_KEY=${opaque}`, opaque],
  ['yaml', `db:\n  user: app\n  password: ${password}\n`, password],
  ['json arguments', JSON.stringify({ user: 'app', password: 'correct horse battery' }), 'correct horse battery'],
  ['json arguments key', JSON.stringify({ api_key: opaque, q: 'weather' }), opaque],
  ['json inside prose', 'got {"password":"x1"} back', 'x1'],
  ['a later field of json inside prose', 'He sent {"user": "app", "password": "ab c"}.', 'ab c'],
  ['json inside json inside prose', `got ${JSON.stringify({ body: JSON.stringify({ password: 'x1' }) })} back`, 'x1'],
  ['json with a quote inside', `got ${JSON.stringify({ password: 'ab"cd' })} back`, 'cd'],
  ['json in json', JSON.stringify({ body: JSON.stringify({ client_secret: opaque }) }), opaque],
  ['code', `const db = connect({ user: 'app', password: '${password}' });`, password],
  ['query', `GET https://maps.example.com/x?access_token=${opaque}&zoom=3`, opaque],
  ['slack webhook', `https://hooks.slack.com/services/T${chars(8)}/B${chars(8)}/${chars(24)}`, chars(24)],
  ['discord webhook', `https://discord.com/api/webhooks/123456789012345678/${chars(68)}`, chars(68)],
  ['pem', `Here it is:\n${pem('RSA ')}\nThanks`, chars(64)],
  ['pem pkcs8', pem(''), chars(64)],
  ['pem openssh', pem('OPENSSH '), chars(64)],
  ['pem cut off', `${pem('EC ').slice(0, 120)}`, chars(64).slice(0, 60)],
  [
    'gcp service account',
    JSON.stringify({ type: 'service_account', private_key_id: hex(40), private_key: pem('') }),
    chars(64),
  ],
  ['asana', `use 1/1204567890123456:${hex(32)} for it`, hex(32)],
  ['in words', `The password is ${password}, tell nobody.`, password],
  ['in more words', `Their old passphrase was: ${password}`, password],
  ['mysql client', `mysqldump --host db -u app -p${password} shop > dump.sql`, password],
  ['encoded pem', Buffer.from(pem('')).toString('base64'), Buffer.from(pem('')).toString('base64').slice(40, 90)],
  ['npmrc', `//packages.example/:_authToken=${opaque}`, opaque],
];

const INNOCENT: [string, string][] = [
  ['sha256', `sha256:${hex(64)}`],
  ['git', `commit ${hex(40)}\nAuthor: Ann <ann@example.com>\nDate: Mon Nov 2 10:00:00 2026`],
  ['md5', hex(32)],
  ['uuid', '3f2a9c01-7b1e-4d7a-9a55-0c2b8f6e1d34'],
  [
    'uuids in json',
    JSON.stringify({ id: '3f2a9c01-7b1e-4d7a-9a55-0c2b8f6e1d34', key: 'items/3f2a9c01', tokenCount: 12 }),
  ],
  ['checkpoint id', `chk_${chars(22, '0123456789abcdefghjkmnpqrstvwxyz')}`],
  [
    'tool call ids',
    JSON.stringify([{ id: `call_${chars(24)}` }, { id: `toolu_01${chars(22)}` }, { id: `chatcmpl-${chars(29)}` }]),
  ],
  [
    'openai ids',
    `resp_${hex(48)} msg_${hex(48)} asst_${chars(24)} file-${chars(24)} org-${chars(24)} run_${chars(24)}`,
  ],
  ['base64 image', `data:image/png;base64,${Buffer.from(chars(9000)).toString('base64')}`],
  ['base64 text', Buffer.from(chars(600)).toString('base64')],
  ['integrity', `"integrity": "sha512-${chars(86)}==", "resolved": "https://packages.example/x/-/x-1.0.0.tgz"`],
  ['ssh public key', `ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI${chars(43)} ann@example.com`],
  ['certificate', `-----BEGIN CERTIFICATE-----\n${chars(64)}\n-----END CERTIFICATE-----`],
  ['public pem', `-----BEGIN PUBLIC KEY-----\n${chars(64)}\n-----END PUBLIC KEY-----`],
  [
    'prose about passwords',
    'Your password: it must have 8 characters. Password rules: see the password policy. The password is never stored.',
  ],
  [
    'prose about tokens',
    'The model used 1234 tokens; max_tokens: 4096, token budget = 100000. Each token costs 0.00001. Bearer authentication is used.',
  ],
  [
    'prose about keys',
    'The api key: ask your administrator. The secret: practice! The secret to success = work. A basic understanding of cookies: fine.',
  ],
  [
    'keyboard',
    'keyboard: mechanical-keyboard-2000-pro-max, secretary: margaret-1234567890-abc, monkey=bananas-1234567890123',
  ],
  [
    'settings',
    JSON.stringify({
      max_tokens: 4096,
      temperature: 0.2,
      model: 'claude-sonnet-4-20250514',
      tokenizer: 'cl100k_base_tokenizer_v2',
    }),
  ],
  [
    'schema',
    JSON.stringify({
      properties: { password: { type: 'string' }, apiKey: { type: 'string', description: 'The key, as sk-...' } },
    }),
  ],
  ['types', 'type Login = { user: string; password: string; token?: string; apiKey: string | undefined };'],
  [
    'code',
    'const password = await getPassword(user1);\nif (password === expected1) { token = createToken(user.id2); }',
  ],
  [
    'code with env',
    'const client = new OpenAI({ apiKey: process.env.OPENAI_API_KEY2, password: config.database.password1 });',
  ],
  [
    'python',
    'password: str = Field(..., min_length=8)\napi_key = os.environ["OPENAI_API_KEY"]\ntoken = request.headers.get("x-auth")',
  ],
  ['zod', 'password: z.string().min(8).max(64), token: z.string().uuid(), secret: z.coerce.string()'],
  ['css', '.sk-fading-circle-container .sk-child-element-before { color: red } .sk-chasing-dots-animation-wrapper {}'],
  ['scikit', 'pip install sk-learn-contrib-py-earth-extensions && import sklearn'],
  [
    'references',
    `apiKey: env:OPENAI_API_KEY, password: \${DB_PASSWORD}, token: <your-token-here-1234>, secret={{ secrets.KEY_1234567890 }}`,
  ],
  ['masked', 'password: ********, api_key=****************, PASSWORD=$DB_PASSWORD1'],
  [
    'template address',
    `postgres://\${USER}:\${PASSWORD}@host/db and https://<user>:<password>@host and redis://localhost:6379`,
  ],
  [
    'address with port',
    'http://localhost:3000/users/@me and https://example.com:8443/@scope/name and mailto:ann@example.com',
  ],
  ['npm scope', 'npm i @types/node@20.19.0 https://packages.example:443/@types/node'],
  ['email', 'Write to ann@example.com: she knows. cc: bob@example.com'],
  [
    'paths',
    'PWD=/home/ann/project1 OLDPWD=/home/ann pwd=/srv/project/src/manager private_key=/etc/ssl/private/site1.pem',
  ],
  ['paging', JSON.stringify({ nextPageToken: `CAUQAA${chars(40)}`, items: [] })],
  ['special tokens', 'eos_token: <|endoftext|>, pad_token=<pad>, bos_token: "<s>"'],
  [
    'log',
    '2026-11-15T21:33:00.123Z INFO request_id=req_011CSHoEeqs5C35K2UUqR7Fy status=200 durationMs=1234567890123456',
  ],
  [
    'stack',
    'TypeError: Cannot read properties of undefined\n    at Object.<anonymous> (/app/node_modules/@scope/package-name/dist/index.cjs:1234:56)',
  ],
  [
    'long names',
    'createCheckpointManagerFromConfigurationFile internal_server_error_handler_2 SOME_VERY_LONG_CONSTANT_NAME_1',
  ],
  ['rule', '--------------------------------------------\n=========================\n****************'],
  [
    'table',
    '| model | tokens | key |\n|------------------|------------------|-----|\n| gpt-4o-2024-08-06 | 128000 | a |',
  ],
  ['chinese', '密码：至少八个字符。令牌：一二三四。password：请输入。'.repeat(20)],
  ['jwt talk', 'A JWT has three parts: header.payload.signature, and starts with eyJ because {" is eyJ in base64.'],
  [
    'prefix talk',
    'OpenAI keys start with sk-, GitHub with ghp_, AWS with AKIA, Slack with xoxb-, Stripe with sk_live_.',
  ],
  [
    'ours',
    'Authorization: Bearer [secret bearer_token], DB_PASSWORD=[secret DB_PASSWORD], postgres://u:[secret url_password]@h',
  ],
  ['session cookie talk', 'Cookie: a small piece of data. Set-Cookie: a header.'],
  ['phone', '+49 170 1234567, account 12345678:AA, time 12:34:56'],
  ['svg', '<path d="M10.5-12.25C100.125-200.25.5-300.125.25-400.5l-12.125.25z" class="icon-key-password-token"/>'],
  ['minified', 'function a(b,c){return b.token=c.key,b.password=c.d1,b.secret=a(c.token),{key:b,token:c,password:d1}}'],
];

const redact = createRedactor();
const leaks = (text: string, secret: string) => (redact(text, undefined) ?? JSON.stringify(text)).includes(secret);

describe('formats', () => {
  test.each(TOKENS)('[secret.4] %s alone becomes a reference', (_, token) => {
    expect(redact(token, undefined)).toMatch(/^\{"\$":\["secret","[a-z0-9_]+"\]\}$/);
  });

  test.each(TOKENS)(
    '[secret.4] %s is found in messages, arguments, headers, addresses, stacks and code',
    (_, token) => {
      const body = token.slice(-12);
      expect(CARRIERS.filter(([, carry]) => leaks(carry(token), body)).map(([name]) => name)).toEqual([]);
    },
  );

  test.each(CONTEXTS)('[secret.5] found by its surroundings: %s', (_, text, secret) => {
    expect(leaks(text, secret.slice(0, 12))).toBe(false);
  });

  test('[secret.4] what surrounds a secret stays', () => {
    const token = TOKENS[10]?.[1] ?? '';
    expect(redact(`Use ${token}, and ${token}.`, 'content')).toBe(
      '"Use [secret github_token], and [secret github_token]."',
    );
    expect(redact(`postgres://app:${password}@db/main`, 'url')).toBe('"postgres://app:[secret url_password]@db/main"');
  });
});

test.each(INNOCENT)('[secret.3] innocent: %s', (_, text) => {
  expect(redact(text, 'content')).toBeUndefined();
  expect(redact(`Some words before. ${text} And some after.`, undefined)).toBeUndefined();
});

test('[secret.7] redacting again changes nothing', () => {
  const texts = [
    ...CONTEXTS.map(([, text]) => text),
    ...TOKENS.flatMap(([, token]) => CARRIERS.map(([, carry]) => carry(token))),
  ];
  for (const text of texts) {
    const once = JSON.parse(redact(text, undefined) ?? '""');
    if (typeof once === 'string') expect(redact(once, undefined)).toBeUndefined();
  }
});
