/** A pool of the `pg` package, as far as it is told apart here: spelt out, so that types hold without the package. */
export interface PostgresPool {
  connect(): Promise<{ release(error?: Error | boolean): void }>;
  end(): Promise<void>;
  readonly totalCount: number;
}
