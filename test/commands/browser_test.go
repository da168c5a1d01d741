package commands

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// browser is a page in Chromium, which notes what goes wrong.
type browser struct {
	t   *testing.T
	ctx context.Context // chromedp's handle

	mu    sync.Mutex
	wrong []string // errors, and requests to other hosts
}

// newBrowser starts Chromium. Only url may be requested.
func newBrowser(t *testing.T, url string) *browser {
	t.Helper()
	chromium := testenv.Tool(t, "chromium")
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium.Path), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.UserDataDir(t.TempDir()), chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.WSURLReadTimeout(patience))
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b := &browser{t: t, ctx: ctx}
	chromedp.ListenTarget(ctx, func(event any) {
		switch e := event.(type) {
		case *log.EventEntryAdded: // also violations of the content security policy
			b.note(string(e.Entry.Level) + ": " + e.Entry.Text)
		case *runtime.EventExceptionThrown:
			b.note(e.ExceptionDetails.Error())
		case *network.EventRequestWillBeSent:
			if !strings.HasPrefix(e.Request.URL, url) && !strings.HasPrefix(e.Request.URL, "data:") {
				b.note("request to " + e.Request.URL)
			}
		}
	})
	if err := chromedp.Run(ctx, log.Enable(), network.Enable()); err != nil { // the first starts Chromium, which ends with its context
		t.Fatal(err)
	}
	return b
}

func (b *browser) note(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wrong = append(b.wrong, what)
}

func (b *browser) do(actions ...chromedp.Action) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Run(ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// shows waits until an element's text contains words.
func (b *browser) shows(selector, words string) {
	b.t.Helper()
	var text string
	eventually(b.t, func() error {
		b.do(chromedp.Text(selector, &text, chromedp.ByQuery))
		if !strings.Contains(text, words) {
			return fmt.Errorf("%s shows %q, want %q", selector, text, words)
		}
		return nil
	})
}

// events are enough for a page, and for charts that are worth a look.
func events() int {
	if os.Getenv("CDC_RELAY_SCREENSHOTS") != "" {
		return 3500
	}
	return 20
}

// look sets size and colours, and writes a screenshot to the directory that CDC_RELAY_SCREENSHOTS names.
func (b *browser) look(name, scheme string, width, height int64) {
	b.t.Helper()
	var image []byte
	b.do(
		chromedp.Evaluate("scrollTo(0, 0)", nil),
		chromedp.EmulateViewport(width, height),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}),
		chromedp.CaptureScreenshot(&image),
	)
	if dir := os.Getenv("CDC_RELAY_SCREENSHOTS"); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, name+".png"), image, 0o600); err != nil {
			b.t.Fatal(err)
		}
	}
}

// violations are the serious findings of axe.
func (b *browser) violations() string {
	b.t.Helper()
	var found string
	b.do(
		chromedp.Evaluate(testenv.NPMFile(b.t, "axe-core@4.10.3", "axe.min.js")+"; 0", nil),
		chromedp.Evaluate(`axe.run().then(r => JSON.stringify(r.violations.filter(v => ["serious", "critical"].includes(v.impact)).map(v => [v.id, v.nodes.map(n => n.html)])))`,
			&found, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }),
	)
	return found
}

// leavesLetter makes a dead letter of an event that a later relay can route.
func (s *site) leavesLetter(id int) {
	s.t.Helper()
	good := s.config
	s.replace("{topic: "+s.name+"}", `{match: {aggregate_type: "Payment"}, topic: `+s.name+"}")
	relay := s.start()
	relay.leading()
	s.event(id, "late", "")
	relay.await(`msg="event became a dead letter"`)
	relay.signal(syscall.SIGTERM)
	s.config = good
}

// The page shows the relay's state, also with names that are HTML and after the relay has ended; one letter is retried
// and published, another one dropped, with a confirmation. It
// violates no policy and asks no other host, and axe finds no serious fault in it, on a desktop and on a phone, light and dark.
func TestPageInBrowser(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.config += "errors: dead_letter\nretention: {keep: 30d}\n"
	s.setup()
	s.pageFor(t)
	s.leavesLetter(3)
	relay := s.start()
	url := relay.leading()
	b := newBrowser(t, url)
	b.do(network.SetExtraHTTPHeaders(network.Headers{"Authorization": "Basic " + base64.StdEncoding.EncodeToString([]byte("ops:secret"))}))
	b.do(chromedp.Navigate(url))
	b.shows("#state", "leading")
	for i := range events() {
		s.event(2+2*i, fmt.Sprintf("order-%d", i), "")
	}
	s.event(1, "<b>a</b>", "no topic, <img src=x onerror=alert(1)>")
	b.shows("#topics", s.name)
	b.shows("#now", "Dead letters\n2")
	b.shows("#partitions", "outbox")
	b.do(chromedp.Click("//button[text()='Reload']"))
	b.shows("#letters", "<b>a</b>")
	b.do(chromedp.SendKeys("#event", eventID(2), chromedp.ByQuery), chromedp.Click("#find", chromedp.ByQuery))
	b.shows("#found", "partition")
	b.do(chromedp.Click("#check", chromedp.ByQuery))
	b.shows("#checked", "wal_level is logical")
	b.look("page-desktop", "light", 1280, 1000)
	var broken []string
	b.do(chromedp.Evaluate("[...document.querySelectorAll('button')].filter(b => b.offsetHeight > 48).map(b => b.textContent)", &broken))
	if len(broken) > 0 {
		t.Errorf("buttons of several lines: %s", broken)
	}
	for _, scheme := range []string{"light", "dark"} {
		b.look("page-phone", scheme, 390, 844)
		if found := b.violations(); found != "[]" {
			t.Errorf("%s: %s", scheme, found)
		}
	}
	var wide bool
	b.do(chromedp.Evaluate("document.documentElement.scrollWidth > innerWidth", &wide))
	if wide {
		t.Error("the page is wider than a phone")
	}
	b.do(chromedp.Click("//button[@aria-label='Retry event "+eventID(3)+"']"), chromedp.WaitVisible("#confirm-yes", chromedp.ByQuery), chromedp.Click("#confirm-yes", chromedp.ByQuery))
	b.shows("#letters", "1 (unroutable 1)")
	b.do(chromedp.Click("//button[text()='Drop']"), chromedp.WaitVisible("#confirm-yes", chromedp.ByQuery), chromedp.Click("#confirm-yes", chromedp.ByQuery))
	b.shows("#letters", "No dead letters")
	if !slices.ContainsFunc(s.consume(s.name, events()+1), func(r *kgo.Record) bool { return header(r, "ce_id") == eventID(3) }) {
		cdctest.Violation(t, cdctest.Lost, "what was retried is not in Kafka")
	}
	b.mu.Lock()
	if len(b.wrong) > 0 {
		t.Error(b.wrong)
	}
	b.mu.Unlock()
	relay.signal(syscall.SIGTERM)
	b.shows("#fresh", "The relay does not answer")
	b.shows("#state", "no answer")
}
