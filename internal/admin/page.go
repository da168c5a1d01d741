package admin

import (
	"embed"
	"io/fs"
	"net/http"
)

// pageFiles is the page for people. It has no build step; from npm are uPlot 1.6.32 (uplot.js, uplot.css), which draws its charts, and
// Preact 10.29.8 (preact.js, and hooks.js, which imports ./preact.js here) with htm 3.1.1 (htm.js), which draw the rest.
//
//go:embed page
var pageFiles embed.FS

// policy lets the page load and ask only what this server serves, and keeps others from framing it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

// servePage adds the page and what it asks for.
func servePage(mux *http.ServeMux, a *api) {
	files, err := fs.Sub(pageFiles, "page")
	if err != nil {
		panic(err) // the name is a valid one
	}
	mux.Handle("GET /", guarded(http.FileServerFS(files)))
	a.routes(mux)
}

// guarded sets the headers that confine what a browser does with an answer.
func guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}
