package inspect

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/tableread"
)

// prefixed is a table of which each ID begins with a text and goes on with digits.
type prefixed struct {
	tableread.Table

	prefix string
	err    error
}

func (p prefixed) Count(_ context.Context, f tableread.Filter) (int64, error) {
	values, err := tableread.Values("t", p.prefix, f.IDs)
	for _, value := range values {
		if strings.Trim(value, "0123456789") != "" {
			return 0, tableread.NotAnID("t", "id", "bigint", "")
		}
	}
	return 0, errors.Join(err, p.err)
}

// Each table is asked for the IDs that its events can have, in their order, and an ID that no table can have is known.
func TestAskedIDs(t *testing.T) {
	ids := []string{"a-1", "b-2", "a-x", "3", "a-4", "c-5", "b-6", "b-"}
	asked := askedIDs{}
	for _, tt := range []struct {
		prefix string
		want   []string
	}{{"a-", []string{"a-1", "a-4"}}, {"b-", []string{"b-2", "b-6", "b-"}}, {"", []string{"3"}}, {"d-", nil}} {
		if got, err := asked.of(t.Context(), prefixed{prefix: tt.prefix}, ids); err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%q: %q, %v, want %q", tt.prefix, got, err, tt.want)
		}
	}
	maps.DeleteFunc(asked, func(_ string, err error) bool { return err == nil })
	if refused := slices.Sorted(maps.Keys(asked)); !slices.Equal(refused, []string{"a-x", "c-5"}) {
		t.Errorf("refused %q", asked)
	}
	failed := errors.New("failed")
	if _, err := asked.of(t.Context(), prefixed{err: failed}, ids[3:4]); !errors.Is(err, failed) {
		t.Errorf("a table that cannot be read: %v", err)
	}
}
