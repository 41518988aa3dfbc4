/** Names of secrets. Compared in lower case, without separators, from the start of a word. */
const SECRET_NAMES = (
  'apikey xapikey authorization proxyauthorization basicauth cookie setcookie ' +
  'password passwd pwd passphrase passcode mnemonic seedphrase ' +
  'secret clientsecret secretkey secretaccesskey secrettoken credential credentials ' +
  'accesstoken refreshtoken authtoken bearertoken sessiontoken idtoken apitoken sastoken ' +
  'privatekey signingkey encryptionkey connectionstring'
).split(' ');

/** What the value of some of them must look like, because the name also means a pastry, a degree or a wire. */
const SHAPES: readonly (readonly [name: RegExp, shape: RegExp])[] = [
  [/passw(?:or)?d$|pwd$|passphrase$/i, /./s],
  [/cookie$/i, /=|^\S{16}/],
  [/connection.?string$/i, /[=:]/],
  [/mnemonic$|seed.?phrase$/i, /^\s*(?:\S+\s+){5}/],
  [/credentials?$|passcode$/i, /^\S{4,}$/],
];

/** Of the others: shorter values are flags and numbers. */
const ANY_SECRET = /^.{4}/s;

/** Names that are also used for harmless things: a secret only if the value looks like a credential. */
const DOUBTFUL_NAMES = ['token', 'accesskey', 'accountkey', 'masterkey', 'authkey', 'sharedaccesskey'];

/** Plain enough to be recognised at the end of a name that has no word boundaries, such as `dbpassword`. */
const GLUED_NAME =
  /(?:password|passwd|passphrase|apikey|privatekey|secretkey|clientsecret|accesstoken|refreshtoken|connectionstring)$/;

/** A word before the name that makes it something else: `hasPassword`, `nextPageToken`, `eos_token`. */
const HARMLESS_BEFORE = {
  password: new Set(['has', 'is', 'needs', 'requires', 'require', 'forgot', 'show', 'hide']),
  token: new Set(
    'page next previous continuation sync resume cursor cancel cancellation stop eos bos pad unk mask sep cls special start end first last max min design text lexer'.split(
      ' ',
    ),
  ),
} as const;

/** Stands for a secret that is kept elsewhere, or was taken out already. */
const REFERENCE =
  /^(?:(?:env|file|vault|keychain):.|op:\/\/|arn:aws|\$\{[^}]*\}|\$\([^)]*\)|\$[A-Z_][A-Z0-9_]*$|%[A-Z_][A-Z0-9_]*%$|\{\{[^}]*\}\}|<[^>]*>$|\[[^\]]*\]$|\([^)]*\)$|[*•.xX]+$|(?:Bearer|Basic|Token) (?:\$|<|\{|\[))/;

const PATH = /^(?:[/~.]|[A-Za-z]:[\\/])/;
const CREDENTIAL_MIN_CHARS = 16;
const CREDENTIAL = /^(?![a-z]{2,10}:\/\/|[/~])\S+$/;

/** Data decides which keys there are, so what is remembered about them needs a bound. */
const MAX_REMEMBERED_KEYS = 2048;

/** `sure`: a value of the usual shape is a secret; `doubtful`: one that looks like a credential is; `none`: the name says nothing. */
type Suspicion = 'sure' | 'doubtful' | 'none';

/** Judges key names. Remembers its answers, because states use few names and use them often. */
export class SecretKeys {
  readonly #names: ReadonlyMap<string, Suspicion>;
  readonly #allowed: ReadonlySet<string>;
  readonly #remembered = new Map<string, Suspicion>();

  constructor({ extra, allowed }: { extra: readonly string[]; allowed: readonly string[] }) {
    this.#names = new Map<string, Suspicion>([
      ...DOUBTFUL_NAMES.map((name) => [name, 'doubtful'] as const),
      ...[...SECRET_NAMES, ...extra.map(normalise)].map((name) => [name, 'sure'] as const),
    ]);
    this.#allowed = new Set(allowed.map(normalise));
  }

  /** Whether the value of this key is a secret because of the key's name. */
  isSecret(key: string, value: string): boolean {
    const suspicion = this.suspect(key);
    if (suspicion === 'none' || value.trim() === '' || isReference(value)) return false;
    if (suspicion === 'doubtful') return isCredential(value);
    // `pwd` is also what shells call the current folder.
    return shapeOf(key).test(value) && !(PATH.test(value) && /pwd$/i.test(key));
  }

  suspect(key: string): Suspicion {
    const known = this.#remembered.get(key);
    if (known !== undefined) return known;
    if (this.#remembered.size >= MAX_REMEMBERED_KEYS) this.#remembered.clear();
    const suspicion = this.#judge(key);
    this.#remembered.set(key, suspicion);
    return suspicion;
  }

  #judge(key: string): Suspicion {
    const whole = normalise(key);
    if (this.#allowed.has(whole)) return 'none';
    const exact = this.#names.get(whole);
    if (exact !== undefined) return exact;
    const words = splitWords(key);
    for (let from = 0; from < words.length; from++) {
      const name = words.slice(from).join('');
      const suspicion = this.#names.get(name);
      if (suspicion !== undefined) return isHarmless(words[from - 1], name) ? 'none' : suspicion;
    }
    return GLUED_NAME.test(whole) && !isHarmless(words.at(-2), words.at(-1) ?? '') ? 'sure' : 'none';
  }
}

function shapeOf(key: string): RegExp {
  return SHAPES.find(([name]) => name.test(key))?.[1] ?? ANY_SECRET;
}

/** Whether a text names a secret instead of being one: `env:NAME`, `${NAME}`, `<redacted>`. */
export function isReference(value: string): boolean {
  return REFERENCE.test(value);
}

/** Whether a text is long enough and of one piece, as credentials are, and no address or path. */
export function isCredential(value: string): boolean {
  return value.length >= CREDENTIAL_MIN_CHARS && CREDENTIAL.test(value);
}

function isHarmless(before: string | undefined, name: string): boolean {
  if (before === undefined || !Object.hasOwn(HARMLESS_BEFORE, name)) return false;
  return HARMLESS_BEFORE[name as keyof typeof HARMLESS_BEFORE].has(before);
}

function normalise(key: string): string {
  return key.toLowerCase().replaceAll(/[\s_.-]/g, '');
}

function splitWords(key: string): string[] {
  return key
    .replaceAll(/([a-z0-9])([A-Z])/g, '$1 $2')
    .replaceAll(/([A-Z])([A-Z][a-z])/g, '$1 $2')
    .toLowerCase()
    .split(/[^\p{L}\p{N}]+/u)
    .filter((word) => word !== '');
}
