/** What JSON can hold. In the codec's form special values are tagged; nothing is a class. */
export type JsonValue = null | boolean | number | string | readonly JsonValue[] | { readonly [key: string]: JsonValue };
