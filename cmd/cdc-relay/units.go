package main

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// withUnits adds the units of metrics, which are the ends of their names.
func withUnits(g prometheus.Gatherer) prometheus.Gatherer {
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		families, err := g.Gather()
		for _, f := range families {
			name := strings.TrimSuffix(f.GetName(), "_total")
			unit := name[strings.LastIndexByte(name, '_')+1:]
			if slices.Contains([]string{"seconds", "bytes", "days"}, unit) {
				f.Unit = &unit
			}
		}
		return families, err
	})
}
