package admin

import (
	"cmp"
	"context"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/display"
)

// Peers are the other relays, of this database and of others.
//
// Only addresses of the configuration are asked, by GET /status alone: nothing that a request or an answer says leads to another one, and
// redirections are not followed. Each gets the user and the password of the configuration, and never those of a caller of this relay, whose
// rights here are not meant for other servers. Of an answer at most a megabyte is read, in at most a few seconds; what is kept of it is
// text, cut and escaped.
type Peers struct {
	// URLs are http://host:9464, or dns+http://name:9464 for every address of a name.
	URLs []string
	// User is who asks; "" for nobody.
	User string
	// Password is called for each look, if there is a user.
	Password func(context.Context) (string, error)
}

const (
	// peersEvery is how often the other relays are asked, and peerTimeout how long one may take.
	peersEvery, peerTimeout = 10 * time.Second, 3 * time.Second
	// maxPeers is how many are asked.
	maxPeers = 200
)

// peer is another relay as it answered last, or why it did not.
type peer struct {
	Name    string   `json:"name"`
	URL     string   `json:"url"`
	Verdict *Verdict `json:"verdict,omitempty"`
	Now     *Now     `json:"now,omitempty"`
	Error   string   `json:"error,omitempty"`
	// Instance is the host and port that the relay gives itself.
	Instance string    `json:"instance,omitempty"`
	AskedAt  time.Time `json:"asked_at"`

	state, group   string
	since, started time.Time
}

// is reports whether it is the relay with this status, to which a name may lead.
func (p *peer) is(st *Status) bool {
	return p.Instance != "" && p.Instance == st.Instance && p.started.Equal(st.StartedAt)
}

// standby is a relay that would take over.
type standby struct {
	Name  string    `json:"name"`
	URL   string    `json:"url"`
	Since time.Time `json:"since"`
}

// fleet asks the peers.
type fleet struct {
	o *Options

	mu    sync.Mutex
	peers []peer
	asked bool
	// had says that another relay of this database was seen.
	had bool
}

func newFleet(o *Options) *fleet { return &fleet{o: o} }

// run asks until ctx ends.
func (f *fleet) run(ctx context.Context) {
	if len(f.o.Peers.URLs) == 0 {
		return
	}
	tick := time.NewTicker(peersEvery)
	defer tick.Stop()
	for {
		f.look(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (f *fleet) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*peerTimeout)
	defer cancel()
	targets, failed := f.targets(ctx)
	found := make([]peer, len(targets))
	var asking sync.WaitGroup
	for i, target := range targets {
		asking.Go(func() { found[i] = f.ask(ctx, target) })
	}
	asking.Wait()
	if ctx.Err() != nil && len(found) == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range found {
		was := slices.IndexFunc(f.peers, func(old peer) bool { return old.URL == found[i].URL })
		if p := &found[i]; p.Error != "" && p.group == "" && was >= 0 { // it is gone
			p.group, p.Instance = f.peers[was].group, f.peers[was].Instance
		}
	}
	f.peers, f.asked = slices.Concat(found, failed), true
}

// targets are the addresses to ask.
func (f *fleet) targets(ctx context.Context) (targets []*url.URL, failed []peer) {
	for _, text := range f.o.Peers.URLs {
		rest, byName := strings.CutPrefix(text, "dns+")
		u, err := url.Parse(rest)
		if err != nil { // the configuration is checked before
			continue
		}
		u.User = nil
		hosts := []string{u.Hostname()}
		if byName {
			if hosts, err = net.DefaultResolver.LookupHost(ctx, u.Hostname()); err != nil {
				failed = append(failed, peer{URL: text, Error: "its name cannot be looked up: " + display.Cut(cdc.LastCause(err), longestText), AskedAt: time.Now()})
			}
			slices.Sort(hosts)
		}
		for _, host := range hosts {
			one := *u
			one.Host = host
			if u.Port() != "" {
				one.Host = net.JoinHostPort(host, u.Port())
			}
			targets = append(targets, &one)
		}
	}
	if n := len(targets); n > maxPeers {
		targets, failed = targets[:maxPeers], append(failed, peer{URL: "http.peers", Error: display.Plural(n-maxPeers, "relay") + " more are not asked", AskedAt: time.Now()})
	}
	return targets, failed
}

func (f *fleet) ask(ctx context.Context, target *url.URL) peer {
	ctx, cancel := context.WithTimeout(ctx, peerTimeout)
	defer cancel()
	p := peer{URL: strings.TrimSuffix(target.String(), "/") + "/", AskedAt: time.Now().UTC()}
	asked := *target
	if f.o.Peers.User != "" {
		password, err := f.o.Peers.Password(ctx)
		if err != nil {
			p.Error = display.Cut(cdc.Explain(err), longestText)
			return p
		}
		asked.User = url.UserPassword(f.o.Peers.User, password)
	}
	st, err := Fetch(ctx, asked.String(), nil)
	switch {
	case err != nil:
		p.Error = display.Cut(err.Error(), longestText)
		return p
	case st.Verdict == nil:
		p.Error = "it is of an earlier version, which gives no verdict: " + display.Cut(st.State, longestText)
	default:
		p.Verdict, p.Now = st.Verdict.escaped(), st.Now
	}
	p.Name, p.Instance = display.Cut(st.Source.Database, longestText), display.Cut(st.Instance, longestText)
	p.state, p.group, p.since, p.started = st.State, st.Group, st.Since, st.StartedAt
	return p
}

// escaped is a verdict of another relay for people.
func (v *Verdict) escaped() *Verdict {
	e := *v
	for _, text := range []*string{&e.State, &e.Level, &e.Title, &e.Cause, &e.Command, &e.Effect} {
		*text = display.Cut(*text, longestText)
	}
	e.Fix, e.Also = display.Escaped(v.Fix), nil
	for _, r := range v.Also[:min(len(v.Also), 10)] {
		e.Also = append(e.Also, r.cut())
	}
	return &e
}

// list returns the relay with this status and the peers, which the page sorts.
func (f *fleet) list(own *Status) []peer {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := []peer{{Name: own.Source.Database, URL: "./", Verdict: own.Verdict, Now: own.Now, Instance: own.Instance, AskedAt: time.Now().UTC()}}
	for i := range f.peers {
		if p := &f.peers[i]; !p.is(own) {
			list = append(list, *p)
		}
	}
	return list
}

// others are the relays of this database: the leader for which this one stands by; those that stand by, nil if that is not known; and the
// name of one that did and is gone, if no other is there.
func (f *fleet) others(st *Status) (leader *Leader, standbys []standby, gone string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	standbys = []standby{}
	others, unknown, last := 0, !f.asked, "another relay"
	for i := range f.peers {
		p := &f.peers[i]
		unknown = unknown || p.group == "" // it did not answer
		if st.Group == "" || p.group != st.Group || p.is(st) {
			continue
		}
		name := cmp.Or(p.Instance, p.URL)
		if p.state == "" {
			last = name
			continue
		}
		others++
		if p.state == "standby" {
			standbys = append(standbys, standby{name, p.URL, p.since})
		}
		if p.state == "leading" && p.Verdict != nil && st.State == "standby" {
			publishes := p.Verdict.State == Publishing || p.Verdict.State == PublishingBut
			leader = &Leader{Name: name, URL: p.URL, Publishing: &publishes, AskedAt: p.AskedAt, of: *p.Verdict}
		}
	}
	f.had = f.had || others > 0
	if f.had && others == 0 && !unknown && st.State == "leading" {
		gone = last
	}
	if unknown && len(standbys) == 0 {
		standbys = nil
	}
	return leader, standbys, gone
}
