import { parseName } from '../../core/record/id.ts';

const QUOTES = ["'", '"', '`', '\\', "a'b", 'a"b', 'a\\"b', "\\'", "''", '""'];
const SQL = ["' OR '1'='1", '" OR "1"="1', "'; DROP TABLE checkpoints; --", '1; DELETE FROM chunks', ') OR (1=1', '/*'];
const PARAMETERS = ['?', '?1', ':name', '@name', '$1', '$name', '--', ';'];
const JSON_PATHS = ['$', '$.a', '$.*', '$[0]', '$["a"]', 'a.b', 'a[0]', 'a[#-1]', '."a"', '[*]', '**', '#', '"a"."b"'];
const BRACKETS = ['{}', '[]', '{', '[', ']', '}'];
const PATTERNS = ['%', '_', 'a%', '%a%', '*', 'a*', '[a-z]', '^a$', '.*', '\\%'];
const PATHS = ['../../etc/passwd', '..\\..\\boot.ini', '/', '/etc', 'a/b', 'a\\b', '~', '.', '..', 'CON', 'nul', 'C:'];
const SPACES = ['a.', 'a ', ' a', ' '];
const PROTOTYPES = ['__proto__', 'constructor', 'prototype', 'toString', 'hasOwnProperty', 'length'];
const OTHER_TYPES = ['null', 'NULL', 'undefined', 'true', '0', '1', '1.0', '01', '1e3', '-1', 'NaN', 'Infinity'];
const LOOK_ALIKES = ['A', 'a', '\u00e9', 'e\u0301', 'ß', 'SS', 'İ', '\u212a', 'K', '字', '😀', '👩‍👩‍👧'];
const INVISIBLE = ['\u202eabc', '\ufeff', '\u200b', '\u2028', '\n', '\r\n', '\t', '\u001f', '\u007f', ''];
const UNSTORABLE = ['\u0000', 'a\u0000', 'a\u0000b', '\ud800', 'a\udfff'];

/** Texts that break naive storages. */
export const HOSTILE_TEXTS: readonly string[] = [
  ...QUOTES,
  ...SQL,
  ...PARAMETERS,
  ...JSON_PATHS,
  ...BRACKETS,
  ...PATTERNS,
  ...PATHS,
  ...SPACES,
  ...PROTOTYPES,
  ...OTHER_TYPES,
  ...LOOK_ALIKES,
  ...INVISIBLE,
  ...UNSTORABLE,
];

const LONGEST = ['x'.repeat(512), '😀'.repeat(256), `${'x'.repeat(511)}y`];

/** Those of them that the boundary lets through as names of sessions, branches, users and agents; and the longest ones. */
export const HOSTILE_NAMES: readonly string[] = [...HOSTILE_TEXTS.filter(isName), ...LONGEST];

function isName(text: string): boolean {
  try {
    parseName(text, 'A name');
    return true;
  } catch {
    return false;
  }
}
