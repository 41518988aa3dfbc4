import { describe, expect, test } from 'vitest';
import { seededRandom } from '../../../test/support/fault-report.ts';
import { trials } from '../../../test/support/trials.ts';
import { createRandom } from '../../testing/contract/random.ts';
import { InvalidInputError } from '../errors.ts';
import { createRedactor } from './redaction.ts';

const redact = createRedactor();
const OPAQUE = 'Zx9'.repeat(8);
const secret = (name: string) => `{"$":["secret",${JSON.stringify(name)}]}`;

describe('key names', () => {
  const passwords = 'password dbPassword dbpassword DB_PASSWORD passwd pwd passphrase confirmPassword';
  test.each(passwords.split(' '))('[secret.2] the value of %s is a secret, whatever it is', (key) => {
    for (const value of ['q', 'short', 'two words']) expect(redact(value, key)).toBe(secret(key));
  });

  const sure =
    'apiKey api_key API-KEY OPENAI_API_KEY x-api-key authorization Authorization Proxy-Authorization secret client_secret clientSecret jwtSecret AWS_SECRET_ACCESS_KEY secretKey access_token accessToken refreshToken authToken _authToken bearerToken sessionToken idToken privateKey private_key signingKey encryption_key';
  test.each(sure.split(' '))('[secret.2] the value of %s is a secret if it has four characters', (key) => {
    for (const value of ['short', 'two words']) expect(redact(value, key)).toBe(secret(key));
    for (const value of ['no', '42']) expect(redact(value, key)).toBeUndefined();
  });

  test.each([
    ['cookie', 'oatmeal', 'sid=31'],
    ['set-cookie', 'none today', 'sid=31; Path=/'],
    ['Cookie', 'cookies are off', OPAQUE],
    ['connectionString', 'green wire', 'Server=db;Pwd=x'],
    ['credentials', 'BSc in Biology', 'app:x1'],
    ['credential', 'a letter of recommendation', 'hunt'],
    ['passcode', 'see front desk', '4711'],
    ['mnemonic', 'ROYGBIV', 'legal winner thank year wave sausage worth useful legal winner thank yellow'],
  ])('[secret.2] the value of %s must look like one: %j is none', (key, harmless, found) => {
    expect(redact(harmless, key)).toBeUndefined();
    expect(redact(found, key)).toBe(secret(key));
  });

  test('[secret.2] a name with spaces is a name', () => {
    expect(redact('short', 'Api Key')).toBe(secret('Api Key'));
  });

  test.each(['token', 'TOKEN', 'githubToken', 'cf_token', 'accessKey'])(
    '[secret.3] the value of %s is a secret if it looks like a credential',
    (key) => {
      expect(redact(OPAQUE, key)).toBe(secret(key));
      for (const harmless of ['short', 'a sentence about the next token', 'https://example.com/oauth/token'])
        expect(redact(harmless, key)).toBeUndefined();
    },
  );

  const harmless =
    'maxTokens max_tokens tokenCount tokens keyboard secretary passwordPolicy password_hint apiKeyName keyId publicKey primaryKey cacheKey idempotencyKey nextPageToken next_page_token continuationToken eosToken hasPassword forgotPassword content role secretName cookiePolicy authorizationUrl sessionId monkey toString __proto__ constructor';
  test.each(harmless.split(' '))('[secret.3] %s says nothing', (key) => {
    expect(redact(OPAQUE, key)).toBeUndefined();
    expect(redact('hunter2', key)).toBeUndefined();
  });

  test.each(
    [
      ['', '   ', 'env:OPENAI_API_KEY', 'file:/run/secrets/key', 'vault:kv/app#key', `\${API_KEY}`, '$API_KEY'],
      [
        '<redacted>',
        '(empty)',
        '{{ secrets.API_KEY }}',
        '********',
        '[secret apiKey]',
        'Bearer <token>',
        'op://vault/item/field',
      ],
    ].flat(),
  )('[secret.3] empty texts and references are left alone: %j', (value) => {
    for (const key of ['apiKey', 'password', 'token', 'authorization']) expect(redact(value, key)).toBeUndefined();
  });

  test('[secret.3] pwd may be a folder', () => {
    for (const folder of ['/home/ann', '~/x', 'C:\\Users', './x']) expect(redact(folder, 'PWD')).toBeUndefined();
    expect(redact('hunter2', 'pwd')).toBe(secret('pwd'));
  });
});

describe('options', () => {
  test('[secret.8] extra keys are recognised in every spelling, and built-in ones stay', () => {
    const own = createRedactor({ extraKeys: ['tenant_pin'] });
    for (const key of ['tenantPin', 'TENANT-PIN', 'oldTenantPin', 'password'])
      expect(own('1234', key)).toBe(secret(key));
    expect(own('1234', 'tenantPinCount')).toBeUndefined();
  });

  test('[secret.8] allowed keys are no secrets by name; formats are still found', () => {
    const own = createRedactor({ allowKeys: ['session_token'] });
    expect(own(OPAQUE, 'sessionToken')).toBeUndefined();
    expect(own(OPAQUE, 'accessToken')).toBe(secret('accessToken'));
    expect(own(`ghp${'_'}${'a1B2'.repeat(9)}`, 'sessionToken')).toBe(secret('github_token'));
  });

  test('[secret.8] extra patterns find every match, whatever their flags and state', () => {
    for (const flags of ['', 'g', 'y', 'gy', 'i']) {
      const pattern = new RegExp('acme-\\d{4}', flags);
      pattern.lastIndex = 3;
      const own = createRedactor({ extraPatterns: [{ name: 'acme', pattern }] });
      for (let round = 0; round < 3; round++) {
        expect(own('a acme-1234 b acme-5678', 'content')).toBe('"a [secret acme] b [secret acme]"');
        expect(own('acme-1234', 'content')).toBe(secret('acme'));
      }
      expect(pattern.lastIndex).toBe(3);
    }
  });

  test('[secret.8] a pattern that matches nothing at all does no harm', () => {
    const own = createRedactor({ extraPatterns: [{ name: 'nothing', pattern: /x*/ }] });
    expect(own('abc', undefined)).toBeUndefined();
    expect(own('axxb', undefined)).toBe('"a[secret nothing]b"');
  });

  test('[secret.8] live values are found verbatim, in JSON and in addresses', () => {
    const own = createRedactor({ values: ['p"a/ss wörd', 'plain'] });
    expect(own('p"a/ss wörd', undefined)).toBe(secret('live_value'));
    expect(own('x=p"a/ss wörd;plainer', undefined)).toBe('"x=[secret live_value];[secret live_value]er"');
    expect(own(JSON.stringify({ x: 'p"a/ss wörd' }), undefined)).toBe('"{\\"x\\":\\"[secret live_value]\\"}"');
    expect(own(`?q=${encodeURIComponent('p"a/ss wörd')}`, undefined)).toBe('"?q=[secret live_value]"');
    expect(own('innocent', undefined)).toBeUndefined();
  });

  test('[secret.8] overlapping secrets leave nothing between them', () => {
    const own = createRedactor({ values: ['abcdef', 'defghi'], extraPatterns: [{ name: 'hij', pattern: /hij/ }] });
    expect(own('-abcdefghij-', undefined)).toBe('"-[secret live_value]-"');
  });

  test.each([
    [{ values: ['ok value', ''] }, 'values[1]'],
    [{ values: ['abc'] }, 'values[0]'],
    [{ extraKeys: ['_'] }, 'extraKeys[0]'],
    [{ allowKeys: [''] }, 'allowKeys[0]'],
    [{ extraPatterns: [{ name: '', pattern: /x/ }] }, 'extraPatterns[0]'],
    [{ extraPatterns: [{ name: 'x', pattern: 'x' as unknown as RegExp }] }, 'extraPatterns[0]'],
  ])('[input.1] bad options are refused by name, without showing a value: %j', (options, field) => {
    expect(() => createRedactor(options)).toThrow(InvalidInputError);
    expect(() => createRedactor(options)).toThrow(field);
    expect(() => createRedactor(options)).not.toThrow('abc');
  });
});

describe('hostile texts', () => {
  const repeated = [
    'sk-',
    'sk-a-',
    'eyJ',
    'eyJa.',
    'a1.',
    '://a:',
    '://:@',
    'a://b:c@',
    'password=',
    'password="',
    "password='\\",
    'password: "a ',
    'Bearer ',
    'bearer a',
    `-----BEGIN PRIVATE${' '}KEY-----`,
    '-',
    'a',
    '0',
    'MAAAAAAAAAAAAAAAAAAAAAAA.',
    '12345678:AA',
    '\\"',
    'token=a',
    '%3A',
    'AWS_SECRET_ACCESS_KEY=',
  ];
  test.each(repeated)('[secret.7] time grows with the length of the text: %j repeated', (part) => {
    const timeOf = (chars: number) => {
      const text = part.repeat(Math.ceil(chars / part.length));
      const start = process.cpuUsage(); // not the clock: other processes would count
      redact(text, undefined);
      return process.cpuUsage(start).user / 1_000;
    };
    timeOf(20_000);
    // Sixteen times the text: quadratic work would take 256 times as long. The floor keeps noise out of short times.
    const shortMs = Math.max(4, Math.min(timeOf(25_000), timeOf(25_000)));
    expect(Math.min(timeOf(400_000), timeOf(400_000), timeOf(400_000))).toBeLessThan(shortMs * 100);
  });

  test('[secret.7] the answer is JSON and depends on the arguments alone', () => {
    const text = `quote " newline \n lone \ud800 password="hunt${'er2'}x" end`;
    const first = redact(text, 'a');
    expect(JSON.parse(first ?? '')).toBe('quote " newline \n lone \ud800 password="[secret password]" end');
    expect(redact(text, 'b')).toBe(first);
  });
});

test('[secret.5] a header is found in lower case, too', () => {
  const credential = Buffer.from('admin:hunter2').toString('base64');
  expect(createRedactor()(`authorization: basic ${credential}`, undefined)).not.toContain(credential);
});

describe('a long text that changes in one place', () => {
  const noise = createRandom(7);
  const WORDS = 'the agent looked at rows and wrote 12 lines: id=7, size: 90 kB, "name": "ann"; done.'.split(' ');
  const prose = (chars: number) => {
    let text = '';
    while (text.length < chars) text += `${WORDS[noise.below(WORDS.length)]}${noise.below(12) === 0 ? '\n' : ' '}`;
    return text;
  };
  const LONG = prose(400_000);

  test('[secret.7] is looked at only around the change', () => {
    for (const line of ['\nThe next line.', '\nuser 7 wrote to ann@example.org', '\n{"id": 7, "size": 12}'])
      expect(redact.isLike?.(LONG + line, LONG, 'log')).toBe(true);
    expect(redact.isLike?.(`${LONG.slice(0, 200_000)} in between ${LONG.slice(200_000)}`, LONG, undefined)).toBe(true);
  });

  test.each([
    ['a token', '\nsk-ant-api03-abcdefghijklmnop1234'],
    ['a password', '\nDB_PASSWORD=hunter2!'],
    ['a hint for what was not looked at', '\nBasic '],
    ['a private key', '\n-----BEGIN PRIVATE KEY-----\nMIIE'],
    ['a password in an address', '\nhttps://ann:s3cret@example.org'],
  ])('[secret.7] is searched as a whole after %s', (_, line) => {
    expect(redact.isLike?.(LONG + line, LONG, 'log')).toBe(false);
  });

  test('[secret.7] under the name of a secret, or with formats of the caller, it is always searched', () => {
    expect(redact.isLike?.(`${LONG}\nmore`, LONG, 'token')).toBe(false);
    expect(createRedactor({ values: ['tram line 9'] }).isLike).toBeUndefined();
  });

  test('[secret.7] whatever is put in, nothing is missed', () => {
    const random = seededRandom();
    const PARTS = [
      'token=',
      'password is ',
      '"secret": "',
      '"',
      "'",
      'x'.repeat(300),
      'sk-ant-api03-abcdefghij',
      'klmnop1234',
      'Bearer ',
      'bearer+',
      'AKIA',
      'ABCDEFGHIJKLMNOP',
      '-----BEGIN RSA PRIVATE KEY-----',
      'mysql -u root -p',
      'hunter2',
      '\n',
      ' ',
      '=',
      '{',
      '?sig=',
      'ftp://a:',
      'b@c',
      'Cookie: ',
      'sid=abcdefghijklmnopq',
      '\\n',
      '%3D',
      'a1'.repeat(20_000),
      'c2stYW50',
      'pass',
      'word: ',
    ] as const;
    const put = (text: string) => {
      const at = random.pick([0, text.length, random.below(text.length)]);
      const cut = random.pick([0, 0, random.below(300), random.below(60_000)]);
      const added = Array.from({ length: 1 + random.below(4) }, () => random.pick(PARTS)).join('');
      return text.slice(0, at) + added + text.slice(at + cut);
    };
    const rounds = trials(2_000);
    let [before, isPlain] = [LONG, 0];
    for (let round = 0; round < rounds; round++) {
      const after = put(before);
      const isClean = redact(after, 'log') === undefined;
      const isLike = redact.isLike?.(after, before, 'log') === true;
      if (isLike) isPlain++;
      if (isLike && !isClean) throw new Error(`Round ${round} of seed ${random.seed}: a secret was missed.`);
      if (isClean && after.length < 1_000_000) before = after;
      if (round % 50 === 49) before = LONG;
    }
    expect(isPlain).toBeGreaterThan(rounds / 200 - 1); // it happens, if there are enough rounds
  });
});
