package main

import (
	"fmt"
	"io"
)

func (r *report) print(w io.Writer) {
	if d := r.Drain; d != nil {
		fmt.Fprintf(w, "drain %d rows: bare %.0f/s, relay %.0f/s, ratio %.2f, %.2f us, %.0f MB\n", d.Rows, d.BareRate, d.RelayRate, d.Ratio, d.CPU, d.RSS)
		fmt.Fprintf(w, "%.0f %+v\n", d.Bare, d.Relay)
	}
	if d := r.Large; d != nil {
		fmt.Fprintf(w, "large %+v\n", *d)
	}
}
