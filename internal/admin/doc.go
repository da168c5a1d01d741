// Package admin serves the relay's metrics, health and status over HTTP, and fetches the status of a running relay.
//
//	GET /metrics   Prometheus or OpenMetrics text, as requested
//	GET /livez     200 "ok"; 503 and the reason if the pipeline is stuck: restart the process
//	GET /readyz    200 "ok" while the relay stands by, or leads and can publish, with its problems; 503 and the reason otherwise
//	GET /status    a [Status] in JSON
//	GET /          a page for people, which asks /api/; details only for callers who authenticate, actions for operators
//
// A recorder looks at the state each second: it keeps six hours of numbers and the last incidents, and gives the [Verdict] of /status and
// the page. The relays of http.peers are asked by this server, never by the browser.
//
// With [Options.Profile] also net/http/pprof under /debug/pprof/.
//
// A web config file in the format of Prometheus' exporter-toolkit turns on TLS and basic authentication for every path,
// so probes need the header too. It is read again for each connection, so renewed certificates and changed users need no
// restart.
package admin
