// Package idempotency does a request's work once, although the client sends the request again.
//
// The client gives each request a key. Key, effect and response are one transaction: after a crash the key is free or the
// response is stored, and there is no lock that must expire. A repeat gets the stored response.
//
//	keys, err := idempotency.New(writer.SQL(db, writer.Postgres), events)
//	...
//	mux.Handle("POST /orders", keys.Middleware(caller, placeOrder))
//
// [Store.Do] is the same without HTTP. 'cdc-relay schema print --idempotency' prints the SQL of the table.
package idempotency
