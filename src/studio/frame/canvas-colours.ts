let probe: HTMLElement | undefined;
const colours = new Map<string, string>();

/** The colour of a token in the theme that is shown: a custom property alone would answer `light-dark(…)`. */
export function colourOf(token: string): string {
  const known = colours.get(token);
  if (known !== undefined) return known;
  probe ??= document.body.appendChild(Object.assign(document.createElement('i'), { hidden: true }));
  probe.style.color = `var(--${token})`;
  const colour = getComputedStyle(probe).color;
  colours.set(token, colour);
  return colour;
}

/** A colour that lets through what is below it. */
export function alpha(colour: string, share: number): string {
  const [red, green, blue] = colour.match(/[\d.]+/g) ?? [];
  return `rgba(${red}, ${green}, ${blue}, ${share})`;
}

/** Forgets all colours: the theme changed. */
export function forgetColours(): void {
  colours.clear();
}

/** The faces of the page, for canvases. */
export const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';

/** The token of a lane's colour. */
export function laneToken(branch: number): string {
  return `lane-${(branch % 4) + 1}`;
}
