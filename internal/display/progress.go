package display

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// IsTerminal reports whether a person reads or types there.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// linesEvery is how often progress is a line where there is no terminal.
const linesEvery = 10 * time.Second

// Progress shows how far a command is: a bar on a terminal, otherwise a line now and then.
type Progress struct {
	out          io.Writer
	bar          bool
	began, lined time.Time
	from, total  int64
	why          string // it stands still
}

// NewProgress returns one that begins at done.
func NewProgress(out io.Writer, done, total int64) *Progress {
	now := time.Now()
	return &Progress{out: out, bar: IsTerminal(out), began: now, lined: now, from: done, total: total}
}

// Update says how many are done.
func (p *Progress) Update(done int64) {
	now := time.Now()
	if !p.bar && now.Sub(p.lined) < linesEvery {
		return
	}
	p.lined = now
	text := p.text(done, now)
	if p.bar {
		const width = 30
		full := int(width * p.share(done))
		text = "\r[" + strings.Repeat("=", full) + strings.Repeat(" ", width-full) + "] " + text + "\x1b[K"
	} else {
		text += "\n"
	}
	_, _ = io.WriteString(p.out, text) // the reader may have gone
}

// share may be reached before the end: events may have been added since they were counted.
func (p *Progress) share(done int64) float64 { return min(1, float64(done)/float64(max(1, p.total))) }

func (p *Progress) text(done int64, now time.Time) string {
	text := fmt.Sprintf("%d of %d events (%.0f %%)", done, p.total, 100*p.share(done))
	rate := float64(done-p.from) / max(now.Sub(p.began).Seconds(), 0.001)
	if rate >= 1 {
		left := time.Duration(float64(max(0, p.total-done)) / rate * float64(time.Second))
		text += fmt.Sprintf(", %.0f/s, %s left", rate, left.Round(time.Second))
	}
	return text
}

// Waits says why it stands still, once.
func (p *Progress) Waits(why string) {
	if why == p.why {
		return
	}
	if p.why = why; why == "" {
		return
	}
	p.End()
	_, _ = fmt.Fprintf(p.out, "waiting: %s\n", why) // as above
}

// End leaves the bar's line.
func (p *Progress) End() {
	if p.bar {
		_, _ = io.WriteString(p.out, "\n") // as above
	}
}
