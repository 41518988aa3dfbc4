import { createMessages, messageBytes } from '../messages.mjs';
import { formatBytes } from '../report.mjs';
import { fileBytes, LONG } from '../workbench.mjs';

export const row4 = {
  id: 'row4',
  title: 'bytes on disk ÷ bytes of the distinct messages, 5,000 messages, one checkpoint each',
  run,
};

async function run(workbench) {
  const distinct = messageBytes(createMessages(LONG));
  for (const { what, compress, atMost } of [
    { what: 'plain', compress: false, atMost: 1.7 },
    { what: 'compressed', compress: true, atMost: 0.9 },
  ]) {
    const bytes = fileBytes(await workbench.builtDatabase({ compress }));
    workbench.report.line({
      what: `bytes on disk ÷ messages, ${what}`,
      ratio: bytes / distinct,
      target: { atMost },
      figures: [
        `file after close ${formatBytes(bytes)}`,
        `messages as JSON ${formatBytes(distinct)}`,
        `${formatBytes((bytes - distinct) / LONG)} a checkpoint above its message`,
      ],
    });
  }
}
