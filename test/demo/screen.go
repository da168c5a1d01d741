package main

import (
	"fmt"
	"io"
	"os"
	"time"
)

// screen writes lines and, on a terminal, a last line that the next one overwrites.
type screen struct {
	w    io.Writer
	live bool
	open bool // the last line is to be overwritten
}

func newScreen(w io.Writer) *screen {
	file, ok := w.(*os.File)
	if !ok {
		return &screen{w: w}
	}
	info, err := file.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0
	return &screen{w: w, live: terminal && os.Getenv("TERM") != "dumb"}
}

// interval is the time between two lines of progress.
func (s *screen) interval() time.Duration {
	if s.live {
		return 200 * time.Millisecond
	}
	return 2 * time.Second
}

const eraseLine = "\r\x1b[K"

// say writes a line.
func (s *screen) say(format string, args ...any) {
	s.erase()
	_, _ = fmt.Fprintf(s.w, format+"\n", args...)
}

// progress writes a line that on a terminal the next one overwrites.
func (s *screen) progress(format string, args ...any) {
	if !s.live {
		s.say(format, args...)
		return
	}
	_, _ = fmt.Fprintf(s.w, eraseLine+format, args...)
	s.open = true
}

func (s *screen) erase() {
	if s.open {
		_, _ = io.WriteString(s.w, eraseLine)
		s.open = false
	}
}

// end keeps the last line.
func (s *screen) end() {
	if s.open {
		_, _ = io.WriteString(s.w, "\n")
		s.open = false
	}
}
