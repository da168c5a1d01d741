package commands

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// shown is what a reader sees of a state.
type shown struct {
	Words, Title, Level, Icon, Why, Way, All string
	Steps, Tiles                             map[string]string // state of each step; value of each number
	Green                                    bool              // the bar's colour
	Wide                                     bool              // the page can be scrolled sideways
}

// read is run in the page.
const read = `(() => {
  const all = (s) => [...document.querySelectorAll(s)], word = (e) => e ? e.innerText.replace(/\s+/g, " ").trim() : "";
  const bar = document.querySelector("#verdict"), [r, g, b] = getComputedStyle(bar).backgroundColor.match(/\d+/g).map(Number);
  return {
    words: word(bar.querySelector(".words")), title: document.title, level: bar.className.replace("verdict", "").trim(), icon: decodeURIComponent(document.querySelector("link[rel=icon]").href),
    why: word(bar.querySelector(".why")), way: word(document.querySelector(".chips")), all: word(document.body),
    steps: Object.fromEntries(all(".step").map((e) => [word(e.querySelector(".name")).split(" ")[0].toLowerCase(), e.className.replace("step", "").trim()])),
    tiles: Object.fromEntries(all(".tile").map((e) => [word(e.querySelector("dt")), word(e.querySelector("dd"))])),
    green: g > r && g > b, wide: document.documentElement.scrollWidth > innerWidth,
  };
})()`

// pageRow is what a state must show: the verdict's words and level, cause and next in the lines below, and something on the page.
type pageRow struct{ state, words, level, cause, next, shows string }

var pageTable = []pageRow{
	{"idle", "Publishing", "good", "", "", "relay-2:9464"},
	{"load", "Publishing", "good", "", "", "992"},
	{"standby", "Standing by for relay-1:9464, which publishes", "idle", "", "takes over when", "relay-1:9464, publishes"},
	{"standby-of-broken", "Standing by for relay-1:9464, which does not publish since 15:34:06", "bad", "Kafka at k1:9092: connection refused", "that the broker runs", "relay-1:9464, does not publish"},
	{"standby-without-database", "Standing by: whether the leader publishes is not known", "warn", "PostgreSQL at db-1:5432", "Start it", "Leader unknown"},
	{"kafka-away", "Not publishing since 15:34:06", "bad", "Kafka at k1:9092", "that the broker runs", "slot is lost at 16:45:15"},
	{"kafka-silent", "Not publishing since 15:34:06", "bad", "Kafka acknowledges nothing", "cdc-relay check", "p99 none, p50 none"},
	{"database-away", "Not publishing since 15:34:06", "bad", "PostgreSQL at db-1:5432", "Start it", "of which the slot kept 5.3 MB at 15:34:06"},
	{"redis-away", "Publishing, but the position is not saved", "warn", "redis redis-1:6379 cannot be reached", "Start it", "slot is lost at 16:45:15"},
	{"no-standby", "Publishing, but no standby answers", "warn", "relay-2:9464 stood by, and does not answer", "does not reach it", "none that answers"},
	{"slot-near-limit", "Publishing, but the slot has used 74 % of its limit since 15:33:03", "bad", "keeps 762.9 MB of WAL", "pg_stat_activity", "slot 74 % used"},
	{"letters", "Publishing, but 200 dead letters", "warn", "182 events could not be published, and 18 are held", "then retry them Open the dead letters", "18 of them are held"},
	{"topics-300", "Publishing", "good", "", "", "Topics 300"},
	{"stopping", "Stopping: 5,753 events left", "idle", "It was told to stop", "Nothing: it ends by itself", "5,753"},
	{"starting", "Starting: waiting for Kafka", "warn", "Kafka at k1:9092", "that the broker runs", "they wait in the database"},
	{"parked", "Not publishing: parked since 15:34:06", "bad", "has no topic", ", then restart the relay", "is not known"},
	{"hostile", "Publishing, but <img src=x onerror=alert(1)>", "warn", "<script>alert(1)</script>", "</p><style>", `\u202e`},
}

// In every state a reader sees its verdict, cause and next step, in the bar, in the title and in the icon; nothing is green that is not good, and what
// is not known is neither 0 nor a value of before. axe finds no serious fault, light and dark, and nothing is wider than a phone.
func TestPageStates(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := newBrowser(t, f.url)
	b.do(emulation.SetTimezoneOverride("UTC"))
	for _, tt := range pageTable {
		f.open(b, tt.state, "")
		got := b.reads()
		for what, pair := range map[string][2]string{
			"words": {got.Words, tt.words}, "title": {got.Title, strings.Split(tt.words, " since ")[0]}, "cause": {got.Why, tt.cause}, "next": {got.Why, tt.next}, "page": {got.All, tt.shows},
		} {
			if !strings.Contains(pair[0], pair[1]) {
				t.Errorf("%s: %s is %q, without %q", tt.state, what, pair[0], pair[1])
			}
		}
		signs := map[string][2]string{"good": {"✓ ", "#17693a"}, "warn": {"! ", "#f2b02e"}, "bad": {"✕ ", "#c02a20"}, "idle": {"", "#566070"}}
		if sign := signs[tt.level]; got.Level != tt.level || got.Green != (tt.level == "good") || !strings.HasPrefix(got.Title, sign[0]) || !strings.Contains(got.Icon, sign[1]) {
			t.Errorf("%s: level %q, green %t, title %q, icon %q", tt.state, got.Level, got.Green, got.Title, got.Icon)
		}
		for _, wrong := range contradictions(f.states[tt.state], got) {
			t.Errorf("%s: %s", tt.state, wrong)
		}
		b.pictures(tt.state)
	}
	b.nothingWrong()
}

// contradictions are values that the page shows although the relay's answer says something else, or that they are not known.
func contradictions(all object, got shown) []string {
	var wrong []string
	names := map[string]string{"per_second": "Events per second", "lag": "Lag", "p99": "Commit to Kafka, p99", "waiting": "Waiting events", "kept_bytes": "kept", "dead_letters": "Dead letters"}
	if all["verdict"].(object)["state"] == "standing_by" { // it has no numbers
		names = nil
	}
	for key, name := range names {
		value, seen := all["now"].(object)[key], ""
		for title, text := range got.Tiles {
			if strings.Contains(title, name) {
				seen = text
			}
		}
		if (value == nil) != (seen == "unknown" || seen == "off" || seen == "none") || seen == "" {
			wrong = append(wrong, fmt.Sprintf("%s is %v and shown as %q", name, value, seen))
		}
	}
	for _, step := range all["steps"].([]any) {
		s := step.(object)
		if seen := got.Steps[strings.Split(strings.ReplaceAll(s["id"].(string), "_", " "), " ")[0]]; seen != s["state"] {
			wrong = append(wrong, fmt.Sprintf("step %s is %v and shown as %q", s["id"], s["state"], seen))
		}
	}
	if list, known := all["standbys"].([]any); !known && names != nil && !strings.Contains(got.Way, "unknown") || known && len(list) == 0 && !strings.Contains(got.Way, "none") {
		wrong = append(wrong, "standbys are shown as "+got.Way)
	}
	return wrong
}

// open shows a state, once its words are there.
func (f *fixture) open(b *browser, state, view string) {
	b.do(chromedp.EmulateViewport(1280, 1000), chromedp.Navigate("about:blank"), chromedp.Navigate(f.url+state+"/"+view),
		chromedp.WaitVisible("main section, .stale, .failed", chromedp.ByQuery), chromedp.Poll(`!document.title.includes("Asking") && document.title !== "cdc-relay"`, nil))
}

func (b *browser) reads() shown {
	b.t.Helper()
	var got shown
	b.do(chromedp.Evaluate(read, &got))
	return got
}

// pictures looks at the page light, dark and on a phone.
func (b *browser) pictures(name string) {
	b.t.Helper()
	for _, scheme := range []string{"light", "dark"} {
		b.look(name+"-"+scheme, scheme, 1280, 1000)
		if found := b.violations(scheme); found != "[]" {
			b.t.Errorf("%s, %s: %s", name, scheme, found)
		}
	}
	b.look(name+"-phone", "light", 390, 844)
	if b.reads().Wide {
		b.t.Errorf("%s is wider than a phone", name)
	}
}

func (b *browser) nothingWrong() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.wrong) > 0 {
		b.t.Error(b.wrong)
	}
}

// The other views hold to the same: topics with a drawer, dead letters, find, operations, fleet.
func TestPageViews(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := newBrowser(t, f.url)
	b.do(emulation.SetTimezoneOverride("UTC"))
	for _, tt := range []struct{ name, state, view, selector, shows string }{
		{"topics", "topics-300", "#topics?filter=tenant-01", "main", "10 topics; p99, retries and rejections of the last 15 min"},
		{"topic", "topics-300", "#topics?topic=tenant-000.orders", "dialog", "order-42"},
		{"dead-letters", "letters", "#letters", "main", "46 × no route matches aggregate type Refund"},
		{"no-dead-letters", "load", "#letters", "main", "There are no dead letters"},
		{"dead-letter", "letters", "#letters?letter=L00000", "dialog", "no route matches aggregate type Refund"},
		{"find", "load", "#find?id=01890a5d-ac96-774b-bcce-b302099a8057", "#found", "topic orders, partition 3, offset 568402"},
		{"operations", "load", "#operations", "main", "The effective one, without secrets."},
		{"fleet", "load", "#fleet", "main", "3 need somebody now, 1 impaired, 1 standing by, 2 well"},
	} {
		f.open(b, tt.state, tt.view)
		b.shows(tt.selector, tt.shows)
		b.pictures(tt.name)
	}
	var order []string
	b.do(chromedp.Evaluate(`[...document.querySelectorAll(".pill")].map((e) => e.innerText.trim())`, &order))
	if want := []string{"Publishing, but the slot has used 74 % of its limit", "Not publishing", "No answer"}; len(order) < 7 || !slices.Equal(order[:3], want) {
		t.Errorf("the fleet's order is %q", order)
	}
	b.shows("#verdict", "3 of 7 relays need somebody now")
	f.open(b, "load", "#operations")
	b.shows("h1", "orders relay-1:9464")
	b.shows("main", "0/7A3C1C0, 15:36:18")
	b.nothingWrong()
}

// The charts have one cross-hair and three ranges; the keyboard gets past the head of the page.
func TestPageChartsAndKeyboard(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := newBrowser(t, f.url)
	b.do(emulation.SetTimezoneOverride("UTC"))
	f.open(b, "kafka-away", "")
	times := func() (list []string) {
		b.do(chromedp.Evaluate(`[...document.querySelectorAll("figcaption .value .quiet")].map((e) => e.innerText)`, &list))
		return list
	}
	if got := times(); !slices.Equal(got, slices.Repeat([]string{"15:36:18"}, 4)) {
		t.Errorf("the charts end at %q", got)
	}
	b.do(chromedp.Evaluate(`(() => {
		const over = document.querySelector(".chart .u-over"), r = over.getBoundingClientRect();
		over.dispatchEvent(new MouseEvent("mousemove", { clientX: r.left + r.width / 2, clientY: r.top + 20, bubbles: true }));
	})()`, nil))
	eventually(t, func() error {
		if got := times(); len(slices.Compact(got)) != 1 || got[0] == "15:36:18" {
			return fmt.Errorf("with the pointer in the middle the charts show %q", got)
		}
		return nil
	})
	b.click("//button[.='6 h']")
	b.shows("figure", "Events per second")
	var focus []string
	b.do(chromedp.Navigate("about:blank"), chromedp.Navigate(f.url+"load/"), chromedp.WaitVisible("main section", chromedp.ByQuery), chromedp.KeyEvent("\t"))
	b.do(chromedp.Evaluate(`[document.activeElement.innerText, getComputedStyle(document.activeElement).outlineStyle]`, &focus))
	if !slices.Equal(focus, []string{"Skip to the content", "solid"}) {
		t.Errorf("the first key leads to %q", focus)
	}
	b.do(chromedp.KeyEvent("\r"), chromedp.Evaluate(`[document.activeElement.id]`, &focus))
	if !slices.Equal(focus, []string{"main"}) {
		t.Errorf("the link leads to %q", focus)
	}
	b.nothingWrong()
}

// 10,000 dead letters are filtered, selected and resolved: the filter stands in the address, a number has to be typed, and each failure is named.
func TestPageResolvesManyLetters(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.failing = "L00000"
	b := newBrowser(t, f.url)
	f.open(b, "letters-10000", "#letters")
	b.shows(".bar", "10,000 dead letters")
	b.click("//button[contains(., 'too_large') and contains(@class, 'facet')]")
	b.shows(".bar", "2,273 dead letters match")
	var address string
	b.do(chromedp.Location(&address))
	if !strings.HasSuffix(address, "#letters?reason=too_large") {
		t.Error(address)
	}
	b.click("//button[normalize-space(.)='Drop all 2,273']")
	b.do(chromedp.SendKeys("#typed", "2400", chromedp.ByQuery))
	var refused bool
	b.do(chromedp.Evaluate(`document.querySelector("dialog [type=submit]").disabled`, &refused))
	if !refused {
		t.Error("a wrong number is taken")
	}
	b.do(chromedp.SendKeys("#typed", "\b\b\b273\r", chromedp.ByQuery))
	b.shows("dialog", "2,273 done, 0 failed")
	b.click("//dialog//button[normalize-space(.)='Close']")
	b.shows(".bar", "0 dead letters match")
	b.click("//a[normalize-space(.)='Remove it']")
	b.shows(".bar", "7,727 dead letters")
	for _, id := range []string{"0", "2"} {
		b.click("//input[@aria-label='Select event 01890a5d-ac96-774b-bcce-00000000000" + id + "']")
	}
	b.shows(".bar", "2 selected; updates are paused")
	b.click("//button[normalize-space(.)='Retry 2 selected']")
	b.do(chromedp.SendKeys("#typed", "2\r", chromedp.ByQuery))
	b.shows("dialog", "1 done, 1 failed")
	b.shows("dialog", "no route matches aggregate type Refund")
	b.do(chromedp.KeyEvent("\x1b"))
	b.shows(".bar", "7,726 dead letters")
	b.nothingWrong()
}

func (b *browser) click(xpath string) {
	b.t.Helper()
	b.do(chromedp.Click(xpath, chromedp.BySearch))
}

// A state that is written down is in the table.
func TestPageStatesAreComplete(t *testing.T) {
	t.Parallel()
	for name, state := range pageStates(t) {
		if !slices.ContainsFunc(pageTable, func(row pageRow) bool { return row.state == name }) && name != "letters-10000" {
			text, _ := json.Marshal(state["verdict"])
			t.Errorf("%s is not in the table: %s", name, text)
		}
	}
}
