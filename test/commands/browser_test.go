package commands

import (
	"context"
	"encoding/base64"
	"encoding/json"
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
	profile, err := os.MkdirTemp("", "chromium") //nolint:usetesting // a TempDir that Chromium still writes into fails the test
	testenv.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(profile) })
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium.Path), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.UserDataDir(profile), chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.WSURLReadTimeout(patience))
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx, chromedp.WithErrorf(func(string, ...any) {})) // events that it does not know
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
	testenv.Must(b.t, chromedp.Run(ctx, actions...))
}

// shows waits until an element's text contains words.
func (b *browser) shows(selector, words string) {
	b.t.Helper()
	eventually(b.t, func() error {
		var text string
		b.do(chromedp.Evaluate(fmt.Sprintf("(document.querySelector(%q) || {innerText: ''}).innerText.replaceAll('\\u00a0', ' ')", selector), &text))
		if !strings.Contains(text, words) {
			return fmt.Errorf("%s shows %q, want %q", selector, text, words)
		}
		return nil
	})
}

// look sets size and colours, and writes a screenshot to the directory that CDC_RELAY_SCREENSHOTS names.
func (b *browser) look(name, scheme string, width, height int64) {
	b.t.Helper()
	b.do(
		chromedp.Evaluate("scrollTo(0, 0)", nil),
		chromedp.EmulateViewport(width, height),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}),
	)
	if dir := os.Getenv("CDC_RELAY_SCREENSHOTS"); dir != "" {
		var image []byte
		b.do(chromedp.CaptureScreenshot(&image))
		testenv.Must(b.t, os.WriteFile(filepath.Join(dir, name+".png"), image, 0o600))
	}
}

// violations are the serious findings of axe. In another scheme the same page differs in its colours only.
func (b *browser) violations(scheme string) string {
	b.t.Helper()
	var found string
	var there bool
	if b.do(chromedp.Evaluate("!!window.axe", &there)); !there {
		b.do(chromedp.Evaluate(testenv.NPMFile(b.t, "axe-core@4.10.3", "axe.min.js")+"; 0", nil))
	}
	options := map[string]string{"light": `{resultTypes: ["violations"]}`, "dark": `{resultTypes: ["violations"], runOnly: ["color-contrast", "link-in-text-block"]}`}
	b.do(
		chromedp.Evaluate(`axe.run(`+options[scheme]+`).then(r => JSON.stringify(r.violations.filter(v => ["serious", "critical"].includes(v.impact)).map(v => [v.id, v.nodes.map(n => n.html)])))`,
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

// opens shows the page of a relay to ops.
func (b *browser) opens(url string) {
	b.t.Helper()
	b.do(network.SetExtraHTTPHeaders(network.Headers{"Authorization": "Basic " + base64.StdEncoding.EncodeToString([]byte("ops:secret"))}),
		chromedp.EmulateViewport(1280, 1000), chromedp.Navigate(url))
}

// view moves to another view, as a link does.
func (b *browser) view(hash string) {
	b.t.Helper()
	b.do(chromedp.Evaluate(fmt.Sprintf("location.hash = %q; 0", hash), nil))
}

// The page shows what a relay does, also with names that are HTML; one letter is retried and published, another one dropped, with a
// confirmation. It violates no policy and asks no other host. After the relay has ended no value looks like a present one.
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
	b.opens(url)
	b.shows("#verdict", "Publishing")
	const events = 20
	for i := range events {
		s.event(2+2*i, fmt.Sprintf("order-%d", i), "")
	}
	s.event(1, "<b>a</b>", "no topic, <img src=x onerror=alert(1)>")
	b.shows(".tiles", "Dead letters\n2")
	b.shows("#verdict", "dead letters")
	b.view("#topics")
	b.shows("main", s.name)
	b.view("#operations")
	b.shows("main", "outbox")
	b.click("//button[.='Run check']")
	b.shows("#check", "wal_level is logical")
	b.view("#find?id=" + eventID(2))
	b.shows("#found", "partition")
	b.view("#letters")
	b.shows("#letters", "<b>a</b>")
	b.resolves("Retry", eventID(3), "")
	b.shows(".bar", "1 dead letter")
	b.resolves("Drop", eventID(1), "1")
	b.shows("#letters", "There are no dead letters")
	if !slices.ContainsFunc(s.consume(s.name, events+1), func(r *kgo.Record) bool { return header(r, "ce_id") == eventID(3) }) {
		cdctest.Violation(t, cdctest.Lost, "what was retried is not in Kafka")
	}
	b.nothingWrong()
	relay.signal(syscall.SIGTERM)
	b.shows("#verdict", "No answer from")
	b.shows("#verdict", "The relay cannot be reached")
	b.shows(".note", "Below is the state of")
	if got := b.reads(); got.Level != "bad" || got.Green || !strings.HasPrefix(got.Title, "✕ No answer") {
		t.Errorf("%+v", got)
	}
	b.pictures("no-answer")
	var filter string
	b.do(chromedp.Evaluate(`getComputedStyle(document.querySelector("main")).filter`, &filter))
	if filter != "grayscale(1)" {
		t.Errorf("what was known before has colours: %s", filter)
	}
}

// resolves retries or drops the letter of an event, and confirms with what is typed.
func (b *browser) resolves(verb, event, typed string) {
	b.t.Helper()
	b.click("//input[@aria-label='Select event " + event + "']")
	b.click("//button[normalize-space(.)='" + verb + " 1 selected']")
	b.do(chromedp.SendKeys("dialog input, dialog [type=submit]", typed+"\r", chromedp.ByQuery))
	b.shows("dialog", "1 done, 0 failed")
	b.click("//dialog//button[.='Close']")
}

// While a server is away, and after it, the page says whether events are published, why not, and nothing that is not so.
func TestPageInOutages(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.setup()
	broker := kafka.Brokers()[0].Proxy()
	database, store := testenv.Proxy(t, s.addr()), testenv.Proxy(t, redis.Addr())
	s.replace(kafka.Bootstrap()[0], broker.Addr())
	s.replace(s.addr(), database.Addr())
	s.replace(redis.Addr(), store.Addr())
	relay := s.start()
	url := relay.leading()
	b := newBrowser(t, url)
	b.opens(url)
	s.insert(1)
	s.consume(s.name, 1)
	b.isTrue(url, "good", "Publishing", func(got shown) error {
		if got.Tiles["Waiting events"] != "0" {
			return fmt.Errorf("%+v", got)
		}
		return nil
	})
	for i, tt := range []struct {
		step, words, level, cause string
		server                    *testenv.ProxyServer
	}{
		{"kafka", "Not publishing since", "bad", "refused", broker},
		{"saved", "Publishing, but", "warn", "refused", store},
		{"database", "Not publishing since", "bad", "refused", database},
	} {
		tt.server.Cut()
		if tt.step != "database" {
			s.insert(2 + i)
		}
		b.isTrue(url, tt.level, tt.words, func(got shown) error {
			if !strings.Contains(got.Why, tt.cause) || got.Steps[tt.step] != "broken" {
				return fmt.Errorf("%s is away: %+v", tt.step, got)
			}
			if waiting := got.Tiles["Waiting events"]; tt.step == "kafka" && waiting != "1" {
				return fmt.Errorf("1 event waits, the page says %q", waiting)
			}
			return nil
		})
		testenv.Must(t, tt.server.Restore())
		b.isTrue(url, "good", "Publishing", func(got shown) error {
			if got.Tiles["Waiting events"] != "0" || strings.Contains(got.All, "goes on") {
				return fmt.Errorf("%s is back: %+v", tt.step, got)
			}
			return nil
		})
	}
	b.nothingWrong()
}

// isTrue waits until the page has these words and holds, and agrees with what the relay answers.
func (b *browser) isTrue(url, level, words string, holds func(shown) error) {
	b.t.Helper()
	eventually(b.t, func() error {
		got := b.reads()
		if got.Level != level || got.Green != (level == "good") || !strings.HasPrefix(got.Words, words) || !strings.Contains(got.Title, words[:10]) {
			return fmt.Errorf("want %s %q: %+v", level, words, got)
		}
		var all object
		if _, text, err := get(b.t, url+"/api/page"); err != nil {
			return err
		} else if err := json.Unmarshal([]byte(text), &all); err != nil {
			return err
		}
		if wrong := contradictions(all, got); len(wrong) > 0 {
			return fmt.Errorf("%q", wrong)
		}
		return holds(got)
	})
}
