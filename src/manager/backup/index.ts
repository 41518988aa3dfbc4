export { type BackupReport, backup, restoreBackup } from './backup.ts';
export { replicate } from './replicate.ts';
