// Package admin serves the relay's metrics, health and status over HTTP, and reads the status of a
// relay that runs.
//
//	GET /metrics   Prometheus or OpenMetrics text, as the scraper asks
//	GET /livez     200 "ok"; 503 and the reason when the pipeline is stuck: restart the process
//	GET /readyz    200 "ok" while leading or standing by; 503 and the reason otherwise
//	GET /status    a [Status] in JSON
//	GET /          the list of these
//
// With [Options.Profile] also net/http/pprof under /debug/pprof/.
//
// A web config file in the form of Prometheus' exporter-toolkit turns on TLS and basic authentication,
// for every path: probes need the header too. The file is read again for each connection, so renewed
// certificates and changed users need no restart.
package admin
