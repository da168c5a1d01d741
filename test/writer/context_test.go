package writer_test

import (
	"context"
	"maps"
	"slices"
	"testing"

	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/cdc-relay/cdc-relay/internal/testenv"
	"github.com/cdc-relay/cdc-relay/writer"
	"github.com/cdc-relay/cdc-relay/writer/writertest"
)

// traceContext returns the headers traceparent and tracestate. OpenTelemetry's global propagator would also send baggage.
func traceContext(ctx context.Context) map[string]string {
	headers := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, headers)
	return headers
}

type operatorKey struct{}

// operator returns who has sent the request.
func operator(ctx context.Context) map[string]string {
	id, _ := ctx.Value(operatorKey{}).(string)
	return map[string]string{"operator-id": id}
}

func TestHeadersOfTheContext(t *testing.T) {
	var recorder writertest.Recorder
	events, err := writer.New(writer.Postgres, writer.WithHeaders(traceContext), writer.WithHeaders(operator), recorder.Option())
	testenv.Must(t, err)
	ctx := context.WithValue(t.Context(), operatorKey{}, "u-7")
	ctx = trace.ContextWithSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}}))
	secret, err := baggage.Parse("customer=c-3")
	testenv.Must(t, err)
	testenv.Must(t, events.Append(baggage.ContextWithBaggage(ctx, secret), recorder.Tx(), newEvent(1)))
	got := writertest.RequireAppended(t, events, &recorder, writertest.Match{Headers: map[string]string{
		"operator-id": "u-7", "traceparent": "00-01000000000000000000000000000000-0200000000000000-00",
	}})
	if names := slices.Sorted(maps.Keys(got.Headers)); !slices.Equal(names, []string{"operator-id", "traceparent"}) {
		t.Errorf("headers %q", names)
	}
}
