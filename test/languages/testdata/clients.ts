// Writes the events that clients_test.go expects, to each database whose URL is an argument.

import assert from "node:assert/strict";
import mysql from "mysql2/promise";
import pg from "pg";
import { appendMySQL, appendPostgres, type OutboxEvent } from "./outbox.js";

const made = (client: string, type: string, rest: Partial<OutboxEvent> = {}): OutboxEvent => ({
  aggregateType: "Order", aggregateId: client, type, payload: "{}", ...rest,
});

const full = (client: string, id: string): OutboxEvent => made("o-1", "Full", {
  id, payload: Buffer.from('{"name": "é😀"}'), occurredAt: new Date("2026-01-02T03:04:05.678Z"), contentType: "application/vnd.order+json", tenantId: "acme",
  partitionKey: client, schemaId: "shop.Full", schemaVersion: 2, headers: { traceparent: "00-1", quote: 'a"b\\c\n é😀' },
});

const bad = (client: string): OutboxEvent[] => [
  made("", "Bad"), made(client, ""), made(client, "a\0b"), made(client, "\ud800"), made(client, "Bad", { id: "1" }),
  made(client, "Bad", { headers: { CE_id: "" } }), made(client, "Bad", { headers: { "Content-Type": "" } }),
  made(client, "Bad", { headers: { a: 1 as unknown as string } }), made(client, "Bad", { schemaVersion: 2 ** 31 }),
  made(client, "Bad", { occurredAt: new Date(NaN) }), made(client, "Bad", { payload: undefined as unknown as null }),
  made(client, "Bad", { payload: new Uint8Array(2 ** 20 + 1) }),
];

// run writes the events of one client. sql runs a statement, append appends events.
async function run(client: string, id: string, sql: (text: string) => Promise<unknown>, append: (events: OutboxEvent | OutboxEvent[]) => Promise<void>) {
  await assert.rejects(append(made(client, "NoTransaction")), /not in a transaction/);
  await sql("BEGIN");
  for (const event of bad(client)) await assert.rejects(append([made(client, "Good"), event]), TypeError);
  await append([full(client, id), made(client, "Tombstone", { payload: null })]);
  await append(made(client, "Before"));
  await sql("SAVEPOINT s");
  await append(made(client, "Undone"));
  await sql("ROLLBACK TO SAVEPOINT s");
  await append(made(client, "After"));
  await sql("COMMIT");
  await sql("BEGIN");
  await append(made(client, "RolledBack"));
  await sql("ROLLBACK");
  await sql("BEGIN");
  await assert.rejects(append(full(client, id)), /duplicate/i); // the same ID again
  await sql("ROLLBACK");
}

for (const url of process.argv.slice(2)) {
  if (url.startsWith("postgres")) {
    const pool = new pg.Pool({ connectionString: url });
    const client = await pool.connect();
    await run("pg", "019aa6a0-7b7c-7cc0-8000-00000000000f", (text) => client.query(text), (events) => appendPostgres(client, events));
    await assert.rejects(appendPostgres(pool as never, made("pg", "Pool")), /not in a transaction/);
    client.release();
    await pool.end();
  } else {
    const pool = mysql.createPool(url);
    const connection = await pool.getConnection();
    await run("mysql2", "019aa6a0-7b7c-7cc0-8000-000000000010", (text) => connection.query(text), (events) => appendMySQL(connection, events));
    await assert.rejects(appendMySQL(pool as never, made("mysql2", "Pool")), /not in a transaction/);
    await connection.query("SET autocommit = 0"); // begins a transaction with the first statement
    await appendMySQL(connection, made("mysql2", "RolledBack"));
    await connection.rollback();
    connection.release();
    await pool.end();
  }
}
