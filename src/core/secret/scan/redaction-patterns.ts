/** A format of secret, and how to find it in a text. The whole match is the secret. */
export type SecretPattern = { readonly name: string; readonly pattern: RegExp };

/**
 * The name of a format, how its tokens begin, and how they go on. Bodies have bounded quantifiers and no choice that could be
 * taken twice, and a token is looked for only where a word begins: so the search is linear in the text.
 */
type TokenFormat = readonly [name: string, start: string, body: string];

const WORD = String.raw`[\w-]`;

const TOKEN_FORMATS: readonly TokenFormat[] = [
  ['anthropic_key', 'sk-ant-', `${WORD}{16,250}`],
  ['openrouter_key', 'sk-or-v1-', '[0-9a-f]{32,80}'],
  ['openai_key', 'sk-(?:proj|svcacct|admin|None|lf)-', `${WORD}{16,250}`],
  ['openai_key', 'sk-', String.raw`(?:[a-z]{2,10}-){0,2}(?=[A-Za-z_]{0,60}\d)\w{20,250}`],
  ['google_key', 'AIza', `${WORD}{35}`],
  ['google_oauth_token', String.raw`ya29\.`, String.raw`[\w-]{20,2000}`],
  ['google_client_secret', 'GOCSPX-', `${WORD}{28}`],
  ['aws_access_key_id', 'A(?:KIA|SIA|BIA|CCA)', '[A-Z2-7]{16}'],
  ['github_token', 'gh[pousr]_', '[A-Za-z0-9]{36,251}'],
  ['github_token', 'github_pat_', String.raw`\w{22,251}`],
  ['gitlab_token', 'gl(?:pat|dt|ptt|rt|soat)-', `${WORD}{20,300}`],
  ['slack_token', 'xox[abeoprs]-', '[A-Za-z0-9-]{10,250}'],
  ['slack_token', String.raw`xapp-\d-`, '[A-Za-z0-9-]{10,250}'],
  ['stripe_key', '[rs]k_(?:live|test)_', '[A-Za-z0-9]{16,250}'],
  ['webhook_secret', 'whsec_', '[A-Za-z0-9+/]{24,250}={0,2}'],
  ['twilio_key', '(?:SK|AC)(?=[0-9a-f])', '[0-9a-f]{32}'],
  ['sendgrid_key', String.raw`SG\.`, String.raw`[\w-]{16,32}\.[\w-]{32,64}`],
  ['npm_token', 'npm_', '[A-Za-z0-9]{36}'],
  ['pypi_token', 'pypi-', `${WORD}{50,1000}`],
  ['huggingface_token', '(?:hf|api_org)_', '[A-Za-z0-9]{30,60}'],
  ['jwt', 'eyJ', String.raw`[\w-]{10,8000}\.[\w-]{10,16000}\.[\w-]{10,2000}`],
  ['discord_token', '[MNO](?=[A-Za-z0-9_-]{23,27}\\.)', String.raw`[\w-]{23,27}\.[\w-]{6}\.[\w-]{27,38}`],
  ['telegram_token', String.raw`(?:bot)?\d{8,10}(?::|%3A)AA`, `${WORD}{32,33}`],
  ['shopify_token', 'shp(?:at|ca|pa|ss)_', '[0-9a-fA-F]{32}'],
  ['digitalocean_token', 'do[opr]_v1_', '[0-9a-f]{64}'],
  ['databricks_token', 'dapi', '[0-9a-f]{32}(?:-[0-9])?'],
  ['linear_key', 'lin_(?:api|oauth)_', '[A-Za-z0-9]{32,64}'],
  ['notion_token', '(?:secret|ntn)_', '[A-Za-z0-9]{40,60}'],
  ['mailgun_key', 'key-', '[0-9a-f]{32}'],
  ['mailchimp_key', '(?=[0-9a-f]{32}-us)', String.raw`[0-9a-f]{32}-us\d{1,2}`],
  ['square_token', 'sq0(?:atp|csp|idp)-', `${WORD}{22,43}`],
  ['square_token', 'EAAA', `${WORD}{60}`],
  ['groq_key', 'gsk_', '[A-Za-z0-9]{40,60}'],
  ['replicate_token', 'r8_', '[A-Za-z0-9]{37,40}'],
  ['perplexity_key', 'pplx-', '[A-Za-z0-9]{32,64}'],
  ['xai_key', 'xai-', '[A-Za-z0-9]{40,120}'],
  ['cerebras_key', 'csk-', '[a-z0-9]{32,64}'],
  ['nvidia_key', 'nvapi-', `${WORD}{40,100}`],
  ['pinecone_key', 'pcsk_', String.raw`\w{40,100}`],
  ['langsmith_key', 'lsv2_(?:pt|sk)_', '[0-9a-f]{32}_[0-9a-f]{10}'],
  ['tavily_key', 'tvly-', '(?:dev-|prod-)?[A-Za-z0-9]{20,64}'],
  ['firecrawl_key', 'fc-', '[0-9a-f]{32}'],
  ['e2b_key', 'e2b_', '[0-9a-f]{40}'],
  ['vault_token', String.raw`hv[bs]\.`, `${WORD}{24,300}`],
  ['docker_token', 'dckr_pat_', `${WORD}{20,60}`],
  ['rubygems_key', 'rubygems_', '[0-9a-f]{48}'],
  ['grafana_token', 'gl(?:c|sa)_', '[A-Za-z0-9_+/]{32,400}={0,2}'],
  ['newrelic_key', 'NRAK-', '[A-Z0-9]{27}'],
  ['sentry_token', 'sntry[su]_', '[A-Za-z0-9_+/=]{40,400}'],
  ['postman_key', 'PMAK-', '[0-9a-f]{24}-[0-9a-f]{34}'],
  ['atlassian_token', 'ATATT3', '[A-Za-z0-9_=-]{50,300}'],
  ['figma_token', 'figd_', `${WORD}{36,60}`],
  ['supabase_token', 'sb(?:p|_secret)_', String.raw`\w{20,60}`],
  ['planetscale_token', 'pscale_(?:tkn|pw|oauth)_', String.raw`[\w.-]{32,64}`],
  ['tailscale_key', 'tskey-[a-z]{3,10}-', '[A-Za-z0-9-]{16,100}'],
  ['age_key', 'AGE-SECRET-KEY-1', '[0-9A-Z]{58}'],
  ['heroku_key', 'HRKU-', `${WORD}{20,80}`],
  ['dropbox_token', String.raw`sl\.`, String.raw`(?:u\.)?[\w-]{60,2000}`],
  ['airtable_token', String.raw`pat(?=[A-Za-z0-9]{14}\.)`, String.raw`[A-Za-z0-9]{14}\.[0-9a-f]{64}`],
  ['firebase_key', 'APA91b', `${WORD}{120,140}`],
  ['doppler_token', String.raw`dp\.(?:pt|st|ct|sa|scim|audit)\.`, String.raw`[\w.-]{40,80}`],
  ['fireworks_key', 'fw_', '[A-Za-z0-9]{20,48}'],
  ['elevenlabs_key', 'sk_', '[0-9a-f]{40,64}'],
  ['voyage_key', 'pa-', `${WORD}{40,64}`],
  ['jina_key', 'jina_', `${WORD}{30,80}`],
  ['anyscale_key', 'esecret_', '[A-Za-z0-9]{20,40}'],
  ['cloudflare_key', String.raw`v1\.0-`, '[0-9a-f]{20,40}-[0-9a-f]{100,160}'],
  ['neon_key', 'napi_', '[a-z0-9]{40,80}'],
  ['vercel_token', 'vc[aciprs]_', '[A-Za-z0-9]{24,60}'],
  ['aws_session_token', '(?:IQoJb3JpZ2lu|FwoGZXIvYXdz)', '[A-Za-z0-9+/=]{80,4000}'],
  ['twitter_token', 'A{18,22}', '[A-Za-z0-9%]{60,140}'],
  ['facebook_token', 'EAA', '[A-Za-z0-9]{80,400}'],
  ['linkedin_token', 'AQ[U-X]', `${WORD}{150,600}`],
  ['linkedin_secret', String.raw`WPL_AP1\.`, String.raw`[A-Za-z0-9]{14,20}\.[A-Za-z0-9+/=]{6,12}`],
  ['asana_token', String.raw`(?<=\b[0-2]\/\d{10,20}(?:\/\d{10,20})?:)`, '[0-9a-f]{32}'],
  // Keys and private keys that were written in base64 once more.
  ['encoded_key', 'c2st(?:YW50|cHJva|b3It)', '[A-Za-z0-9+/]{24,600}={0,2}'],
  [
    'private_key',
    'LS0tLS1CRUdJTiB(?:QUklWQVRF|SU0EgUFJJ|PUEVOU1NI|FQyBQUklW|FTkNSWVBU)',
    '[A-Za-z0-9+/]{40,32000}={0,2}',
  ],
];

/** Secrets at the end of web addresses: nothing in the word itself gives them away, but the address before it does. */
const WEBHOOK_FORMATS: readonly TokenFormat[] = [
  [
    'slack_webhook',
    String.raw`(?<=slack\.com\/(?:services|workflows|triggers)\/\w{8,14}\/\w{8,14}\/)`,
    String.raw`\w{16,64}`,
  ],
  ['discord_webhook', String.raw`(?<=\/api\/webhooks\/\d{17,20}\/)`, `${WORD}{60,80}`],
];

const FORMATS = [...TOKEN_FORMATS, ...WEBHOOK_FORMATS];

/** Formats that are recognised at the start of a word; sticky, because the start is known. */
export const TOKEN_PATTERNS: readonly SecretPattern[] = FORMATS.map(([name, start, body]) => ({
  name,
  pattern: new RegExp(`${start}${body}(?![\\w-])`, 'y'),
}));

/** Tells at the start of a word whether any of the formats may be there. */
export const TOKEN_START = new RegExp([...new Set(FORMATS.map(([, start]) => start))].join('|'), 'y');

/** The signature of an Azure address. */
export const SAS_PATTERN: SecretPattern = { name: 'azure_sas', pattern: /(?<=[?&;]sig=)[\w%+/=-]{32,200}/g };

/** Takes what follows the first line even if the end is missing: half a key is a leak, too. */
export const PRIVATE_KEY_PATTERN: SecretPattern = {
  name: 'private_key',
  pattern:
    /-----BEGIN (?:[A-Z0-9]{2,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----(?:[A-Za-z0-9+/=\s\\:,.()]|-(?!----)){0,32000}(?:-----END [A-Z0-9 ]{3,50}-----)?/g,
};

/** The password in `scheme://user:password@host`, whatever the scheme: web, postgres, mysql, mongodb, redis, amqp. */
export const URL_PASSWORD_PATTERN: SecretPattern = {
  name: 'url_password',
  pattern: /(?<=[a-z0-9]:\/\/[^\s:@/?#"'`<>]{0,128}:)(?![$<{[*%])[^\s/"'`<>\\]{1,256}(?=@[\w[.-])/gi,
};

/** A password behind the flag of a client of MySQL, which takes no space. */
export const MYSQL_PASSWORD_PATTERN: SecretPattern = {
  name: 'password',
  pattern: /(?<=\bmysql\w{0,12}\b[^\n|;&]{0,200}\s-p)[^\s"'`|;&$<{[]{4,64}(?!\S)/g,
};

/** A credential after the word "Bearer", also where no header's name comes before it. */
export const BEARER_PATTERN: SecretPattern = {
  name: 'bearer_token',
  pattern: /(?<=\bbearer(?: |%20|\+))(?=[A-Za-z_.~+/-]{0,200}\d)[\w.~+/-]{20,8000}={0,2}(?![\w-])/gi,
};
