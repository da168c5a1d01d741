// Appends events to cdc-relay's outbox table in the caller's transaction, on PostgreSQL with node-postgres (pg), on MySQL and MariaDB with
// mysql2. The relay publishes them after the commit.
//
// Copy this file into your project. It needs Node 20, pg with getTransactionStatus (tested with 8.23.1) or mysql2 3, and a table whose payload
// column takes bytes, the default of `cdc-relay schema print`.
//
//   await client.query("BEGIN");
//   await client.query("INSERT INTO orders ...");
//   await appendPostgres(client, { aggregateType: "Order", aggregateId: order.id, type: "OrderPlaced", payload: JSON.stringify(order) });
//   await client.query("COMMIT");

import { randomBytes } from "node:crypto";

/** One row of the table and one record. */
export interface OutboxEvent {
  /** A UUID. Set it to newId() before a transaction that may be run again, so that it writes the same one. */
  id?: string;
  aggregateType: string;
  /** The record's key, unless partitionKey is set. */
  aggregateId: string;
  type: string;
  /** Text is sent as UTF-8. null is a tombstone: a record without a value, which deletes its key from a compacted topic. */
  payload: string | Uint8Array | null;
  occurredAt?: Date;
  contentType?: string;
  tenantId?: string;
  /** Overrides the relay's routes. */
  topic?: string;
  partitionKey?: string;
  schemaId?: string;
  schemaVersion?: number;
  headers?: Record<string, string>;
}

export interface Options {
  /** The table's name, which is written into the SQL as it is. */
  table?: string;
  /** In bytes; 1 MiB unless set. */
  maxPayload?: number;
}

/** A Client or PoolClient of pg. */
export interface PostgresClient {
  query(text: string, values: unknown[]): Promise<unknown>;
  getTransactionStatus(): string | null;
}

/** A Connection or PoolConnection of mysql2/promise. */
export interface MySQLConnection {
  query(sql: string): Promise<[unknown, unknown]>;
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  execute(sql: string, values: any): Promise<[unknown, unknown]>;
}

/** Appends events in order. The client must be in a transaction. If it fails, roll back. */
export async function appendPostgres(client: PostgresClient, events: OutboxEvent | OutboxEvent[], options: Options = {}): Promise<void> {
  if (typeof client.getTransactionStatus !== "function" || client.getTransactionStatus() !== "T") {
    throw new Error("the client is not in a transaction: await BEGIN on a client, which a pool gives by connect(); older releases of pg cannot tell, update it");
  }
  for (const [text, values] of statements("postgres", events, options)) {
    await client.query(text, values);
  }
}

/** Appends events in order. The connection must be in a transaction. If it fails, roll back. It costs a round trip to ask whether it is. */
export async function appendMySQL(connection: MySQLConnection, events: OutboxEvent | OutboxEvent[], options: Options = {}): Promise<void> {
  const all = statements("mysql", events, options);
  const [result] = "getConnection" in connection ? [undefined] : await connection.query("DO 0");
  const status = (result as { serverStatus?: number } | undefined)?.serverStatus ?? AUTOCOMMIT;
  if (!(status & IN_TRANSACTION) && status & AUTOCOMMIT) {
    throw new Error("the connection is not in a transaction: await beginTransaction() on a connection, which a pool gives by getConnection()");
  }
  for (const [sql, values] of all) {
    await connection.execute(sql, values);
  }
}

const IN_TRANSACTION = 1; // SERVER_STATUS_IN_TRANS of MySQL's protocol
const AUTOCOMMIT = 2; // SERVER_STATUS_AUTOCOMMIT

/** Returns an INSERT for each event, with its values, for other libraries. Run them in order in the transaction of the change. */
export function statements(
  dialect: "postgres" | "mysql",
  events: OutboxEvent | OutboxEvent[],
  { table = "outbox", maxPayload = 1 << 20 }: Options = {},
): [string, unknown[]][] {
  const postgres = dialect === "postgres";
  // Some libraries send text in the binary format of the parameter's type, so that is text.
  const values = postgres
    ? "$1::text::uuid, $2, $3, $4, $5, $6, $7, $8, $9, $10::int, $11::text::jsonb, $12::bytea, $13::text::timestamptz, COALESCE($14::text::timestamptz, now())"
    : "?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, COALESCE(?, UTC_TIMESTAMP(6))";
  const sql = `INSERT INTO ${table} (event_id, aggregate_type, aggregate_id, event_type, tenant_id, topic, partition_key, content_type,
  schema_id, schema_version, headers, payload, occurred_at, created_at) VALUES (${values})`;
  return [events].flat().map((e, i) => {
    const reason = invalid(e, postgres, maxPayload);
    if (reason) throw new TypeError(`event ${i}: ${reason}`);
    return [sql, row(e, postgres)];
  });
}

function row(e: OutboxEvent, postgres: boolean): unknown[] {
  const id = e.id ?? newId();
  // Text in UTC: drivers would convert a Date to the time zone of the process.
  const time = (at: Date) => (postgres ? at.toISOString() : at.toISOString().replace("T", " ").replace("Z", ""));
  const created = timeOf(id);
  return [
    postgres ? id : Buffer.from(id.replaceAll("-", ""), "hex"),
    e.aggregateType,
    e.aggregateId,
    e.type,
    e.tenantId || null,
    e.topic || null,
    e.partitionKey || null,
    e.contentType || "application/json",
    e.schemaId || null,
    e.schemaVersion || null,
    e.headers && Object.keys(e.headers).length > 0 ? JSON.stringify(e.headers) : null,
    e.payload === null ? null : Buffer.from(e.payload as Uint8Array),
    time(e.occurredAt ?? new Date()),
    created && time(created),
  ];
}

/** Makes a UUID of version 7: such IDs increase with time, which keeps the index small. */
export function newId(): string {
  const bytes = randomBytes(16);
  bytes.writeUIntBE(Date.now(), 0, 6);
  bytes[6] = (bytes[6]! & 0x0f) | 0x70;
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  return bytes.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

/** Returns the time in an ID of version 7. As created_at it makes the table's key refuse the same ID twice. */
function timeOf(id: string): Date | null {
  return /^.{14}7.{4}[89ab]/i.test(id) ? new Date(parseInt(id.slice(0, 8) + id.slice(9, 13), 16)) : null;
}

const MYSQL_TEXT = 255; // characters in a column

/** Returns why the table or the relay would refuse the event, with the fix, or an empty string. */
function invalid(e: OutboxEvent, postgres: boolean, maxPayload: number): string {
  if (e.id !== undefined && !/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(e.id)) {
    return "id is no UUID: leave it out, or use newId()";
  }
  for (const name of ["aggregateType", "aggregateId", "type"] as const) {
    if (!e[name]) return `${name} is empty: set it`;
  }
  for (const name of ["aggregateType", "aggregateId", "type", "tenantId", "topic", "partitionKey", "contentType", "schemaId"] as const) {
    if (!storable(e[name] ?? "")) return `${name} is no text, or holds U+0000 or half of a surrogate pair: correct it`;
    if (!postgres && [...(e[name] ?? "")].length > MYSQL_TEXT) return `${name} has more than ${MYSQL_TEXT} characters: shorten it`;
  }
  for (const [name, value] of Object.entries(e.headers ?? {})) {
    if (!name || /^(ce_.*|content-type)$/is.test(name)) return `header ${JSON.stringify(name)} is reserved or empty: choose another name`;
    if (!storable(name) || !storable(value)) {
      return `header ${JSON.stringify(name)} is no text, or holds U+0000 or half of a surrogate pair: correct it`;
    }
  }
  if (e.payload !== null && typeof e.payload !== "string" && !(e.payload instanceof Uint8Array)) {
    return "payload is neither text nor bytes: use JSON.stringify, or null for a tombstone";
  }
  if (typeof e.payload === "string" && LONE_SURROGATE.test(e.payload)) return "payload holds half of a surrogate pair: remove it";
  if (e.payload !== null && Buffer.byteLength(e.payload) > maxPayload) {
    return `payload has more than ${maxPayload} bytes: store the data elsewhere and send a reference`;
  }
  const version = e.schemaVersion ?? 0;
  if (!Number.isInteger(version) || version < 0 || version > 0x7fffffff) return "schemaVersion is out of range: give 1 to 2147483647";
  for (const at of [e.occurredAt, e.id === undefined ? null : timeOf(e.id)]) {
    if (at && !(at.getUTCFullYear() >= 1 && at.getUTCFullYear() <= 9999)) return "a time is not in the years 1 to 9999: correct it";
  }
  return "";
}

const LONE_SURROGATE = /\p{Surrogate}/u;

function storable(s: unknown): boolean {
  return typeof s === "string" && !s.includes("\0") && !LONE_SURROGATE.test(s);
}
