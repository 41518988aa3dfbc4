/** OpenTelemetry: spans for saves, steps and restores. */

export { openTelemetry } from './open-telemetry.ts';
