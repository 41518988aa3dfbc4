/** Objects whose fields are followed: those that are plain data. Instances of classes are left as they are. */
function isPlain(value: unknown): value is object {
  if (typeof value !== 'object' || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === Array.prototype || prototype === null;
}

const originals = new WeakMap<object, object>();

/** The object behind a tracked one; anything else as it is. */
export function originalOf<Value>(value: Value): Value {
  if (typeof value !== 'object' || value === null) return value;
  return (originals.get(value) as Value | undefined) ?? value;
}

/**
 * The same object, seen through a proxy that tells of every change of its fields, however deep in plain objects and arrays. Values of
 * classes, maps and sets are handed out as they are: their changes have to be told.
 */
export function trackChanges<Value extends object>(value: Value, onChange: () => void): Value {
  return new Tracker(onChange).wrap(value);
}

class Tracker {
  readonly #onChange: () => void;
  readonly #proxies = new WeakMap<object, object>();

  constructor(onChange: () => void) {
    this.#onChange = onChange;
  }

  wrap<Value extends object>(value: Value): Value {
    const target = originalOf(value);
    const known = this.#proxies.get(target);
    if (known !== undefined) return known as Value;
    const proxy = new Proxy<Value>(target, this.#createHandler());
    this.#proxies.set(target, proxy);
    originals.set(proxy, target);
    return proxy;
  }

  #createHandler(): ProxyHandler<object> {
    return {
      get: (target, key, receiver) => {
        // Getters of a class may read private fields, which a proxy has not.
        const value: unknown = Reflect.get(target, key, isPlain(target) ? receiver : target);
        return this.#mayWrap(target, key) && isPlain(value) ? this.wrap(value) : value;
      },
      set: (target, key, value: unknown) => this.#told(Reflect.set(target, key, originalOf(value))),
      deleteProperty: (target, key) => this.#told(Reflect.deleteProperty(target, key)),
      defineProperty: (target, key, descriptor) => this.#told(Reflect.defineProperty(target, key, descriptor)),
    };
  }

  /** A field that cannot change must be answered as it is. */
  #mayWrap(target: object, key: PropertyKey): boolean {
    const descriptor = Reflect.getOwnPropertyDescriptor(target, key);
    return descriptor === undefined || descriptor.configurable === true || descriptor.writable === true;
  }

  #told(isDone: boolean): boolean {
    if (isDone) this.#onChange();
    return isDone;
  }
}
