export async function timeMs(run) {
  const start = performance.now();
  await run();
  return performance.now() - start;
}

/** Measures so many times, or fewer if that takes too long. */
export async function repeat({ count, limitMs }, measure) {
  const samples = [];
  let spentMs = 0;
  while (samples.length < count && spentMs < limitMs) {
    const tookMs = await measure();
    samples.push(tookMs);
    spentMs += tookMs;
  }
  return samples;
}
