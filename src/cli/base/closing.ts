/** Does something with what was opened, if it was, and closes it. */
export async function closing<Opened extends { close(): Promise<unknown> } | undefined, Result>(
  opened: Opened,
  work: (opened: Opened) => Promise<Result>,
): Promise<Result> {
  try {
    return await work(opened);
  } finally {
    await opened?.close();
  }
}
