/** What objects made in the same way have in common. Compared with, it is in the processor's cache, however many objects there are. */
export type ObjectShape = { readonly prototype: object | null; readonly keys: readonly string[] };

/** Classes have a few shapes each. Objects with keys of their own would fill the memory. */
const MAX_SHAPES_EACH = 16;

const shapes = new WeakMap<object, ObjectShape[]>();

/** The shape of an object: the same one for nearly all objects like it. */
export function shapeOf(source: object): ObjectShape {
  const prototype: object | null = Object.getPrototypeOf(source);
  const known = shapesOf(prototype ?? NO_PROTOTYPE);
  for (const shape of known) if (hasKeys(source, shape.keys)) return shape;
  const shape = { prototype, keys: Object.keys(source) };
  if (known.length === MAX_SHAPES_EACH) known.shift();
  known.push(shape);
  return shape;
}

const NO_PROTOTYPE = {};

function shapesOf(prototype: object): ObjectShape[] {
  let known = shapes.get(prototype);
  if (known === undefined) {
    known = [];
    shapes.set(prototype, known);
  }
  return known;
}

/** Whether an object has exactly these keys, in this order. */
function hasKeys(source: object, keys: readonly string[]): boolean {
  let at = 0;
  for (const key in source) if (key !== keys[at++]) return false;
  return at === keys.length;
}
