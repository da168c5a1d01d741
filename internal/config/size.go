package config

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Size is a number of bytes. In the file it is a number, or one with a unit: 64KiB, 8MiB, 1GiB, and
// KB, MB, GB for powers of ten.
type Size int64

type unit struct {
	name  string
	bytes int64
}

func units() []unit {
	return []unit{
		{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1},
	}
}

var errSize = errors.New("not a size such as 64KiB or 8MiB")

// ParseSize reads a size; it must be positive.
func ParseSize(text string) (Size, error) {
	number, factor := text, int64(1)
	for _, u := range units() {
		if rest, ok := strings.CutSuffix(text, u.name); ok {
			number, factor = strings.TrimRight(rest, " "), u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n <= 0 || n > math.MaxInt64/factor {
		return 0, errSize
	}
	return Size(n * factor), nil
}

// UnmarshalText reads a size as [ParseSize] does.
func (s *Size) UnmarshalText(text []byte) error {
	size, err := ParseSize(string(text))
	*s = size
	return err
}

// MarshalYAML writes the size with the largest unit that divides it.
func (s Size) MarshalYAML() (any, error) {
	for _, u := range []unit{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if s > 0 && int64(s)%u.bytes == 0 {
			return fmt.Sprintf("%d%s", int64(s)/u.bytes, u.name), nil
		}
	}
	return int64(s), nil
}
