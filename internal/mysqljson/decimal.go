package mysqljson

// A DECIMAL stands in groups of nine digits, four bytes each, counted from the point. What is left at either end
// takes as many bytes as its digits need. The highest bit is set where the number is not negative, and all bytes
// are inverted where it is (decimal2bin in strings/decimal.cc).
const groupDigits, groupBytes = 9, 4

// DecimalSize returns how many bytes a DECIMAL of precision digits has, scale of them behind the point; 0: there is none.
func DecimalSize(precision, scale byte) int {
	if scale > precision {
		return 0
	}
	return sizeOf(int(precision-scale)) + sizeOf(int(scale))
}

func sizeOf(digits int) int {
	return digits/groupDigits*groupBytes + (digits%groupDigits+1)/2
}

// AppendDecimal appends a DECIMAL with all the digits of its scale. data has its size, which is not 0.
func AppendDecimal(arena, data []byte, precision, scale byte) []byte {
	whole, fraction := int(precision-scale), int(scale)
	mask := byte(0)
	if data[0]&0x80 == 0 {
		mask = 0xff
		arena = append(arena, '-')
	}
	start := len(arena)
	d := decimal{arena: arena, data: data, mask: mask, sign: 0x80}
	d.digits(whole % groupDigits)
	for range whole / groupDigits {
		d.digits(groupDigits)
	}
	d.trim(start)
	if fraction == 0 {
		return d.arena
	}
	d.arena = append(d.arena, '.')
	for range fraction / groupDigits {
		d.digits(groupDigits)
	}
	d.digits(fraction % groupDigits)
	return d.arena
}

type decimal struct {
	arena, data []byte
	mask        byte
	sign        byte // still to be taken off the first byte
}

// digits appends the next n digits.
func (d *decimal) digits(n int) {
	var v uint64
	bytes := sizeOf(n)
	for _, b := range d.data[:bytes] {
		v = v<<8 | uint64(b^d.mask^d.sign)
		d.sign = 0
	}
	d.data = d.data[bytes:]
	d.arena = AppendDigits(d.arena, v, n)
}

// trim leaves out zeros at the front and writes at least one digit.
func (d *decimal) trim(start int) {
	first := start
	for first < len(d.arena) && d.arena[first] == '0' {
		first++
	}
	if first == len(d.arena) {
		d.arena = append(d.arena[:start], '0')
		return
	}
	d.arena = append(d.arena[:start], d.arena[first:]...)
}
