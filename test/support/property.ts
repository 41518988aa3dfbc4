import fc from 'fast-check';
import { reportFaults } from './fault-report.ts';
import { drawn } from './trials.ts';

/** Checks a property with so many trials, reports how it went for docs/GUARANTEES.md, and throws what fast-check says of a failure. */
export async function checkProperty<Values>(
  name: string,
  { property, full }: { readonly property: fc.IRawProperty<Values>; readonly full: number },
): Promise<void> {
  const details = await fc.check(property, drawn(full));
  const failures = details.failed ? [`${await fc.asyncDefaultReportMessage(details)}`] : [];
  reportFaults(name, { trials: details.numRuns, failures });
  if (details.failed) throw new Error(failures[0]);
}
