package mysqljson

import (
	"bytes"
	"math"
	"strconv"
)

// minExponent is the smallest whole number that is printed with an exponent.
const minExponent = 1e15

// AppendFloat prints as the server does: the shortest text that reads back as the value, exponents without plus.
func AppendFloat(arena []byte, v float64, bits int) []byte {
	format := byte('f')
	if size := math.Abs(v); size != 0 && (size >= minExponent || size < 1e-15) {
		format = 'e'
	}
	start := len(arena)
	arena = strconv.AppendFloat(arena, v, format, -1, bits)
	if i := bytes.IndexByte(arena[start:], 'e'); i >= 0 {
		exponent := arena[start+i+1:]
		sign := exponent[0]
		digits := bytes.TrimLeft(exponent[1:], "0")
		arena = arena[:start+i+1]
		if sign == '-' {
			arena = append(arena, '-')
		}
		arena = append(arena, digits...)
	}
	return arena
}

// AppendDate appends a date.
func AppendDate(arena []byte, year, month, day int) []byte {
	arena = append(arena, digit(year/1000), digit(year/100), digit(year/10), digit(year), '-')
	return append(arena, digit(month/10), digit(month), '-', digit(day/10), digit(day))
}

// AppendClock appends a time of day.
func AppendClock(arena []byte, hour, minute, second int) []byte {
	return append(arena, digit(hour/10), digit(hour), ':', digit(minute/10), digit(minute), ':', digit(second/10), digit(second))
}

func digit(n int) byte { return byte('0' + n%10) }

// AppendDigits appends the last n digits of v.
func AppendDigits(arena []byte, v uint64, n int) []byte {
	for range n {
		arena = append(arena, 0)
	}
	for i := len(arena) - 1; n > 0; i, n = i-1, n-1 {
		arena[i] = byte('0' + v%10)
		v /= 10
	}
	return arena
}
