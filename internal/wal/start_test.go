package wal

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/postgres"
)

func here() cdc.Source { return cdc.Source{SystemID: "1", Database: "d", Slot: "s", Timeline: 3} }

func checkpointAt(resume, commit lsn, xid string) storedCheckpoint {
	return storedCheckpoint{found: true, checkpoint: cdc.Checkpoint{
		Source:   here(),
		Progress: cdc.Progress{Position: postgres.FormatLSN(resume), Commit: postgres.FormatLSN(commit), TxID: xid},
	}}
}

func TestResolve(t *testing.T) {
	foreign := checkpointAt(100, 90, "7")
	foreign.checkpoint.Source.SystemID = "2"
	unreadable := checkpointAt(100, 90, "7")
	unreadable.checkpoint.Progress.Position = "nonsense"
	otherTables := checkpointAt(100, 90, "7")
	otherTables.checkpoint.Source.Fingerprint = "public.other=1"
	badXID := checkpointAt(100, 90, "x")

	for name, tt := range map[string]struct {
		slot, flushed lsn
		saved         storedCheckpoint
		handedOn      handedOn
		confirmed     lsn
		before        uint32
		forks         map[uint32]lsn
		want          startPoint
		reason        string
	}{
		"slot alone":                        {slot: 100, want: startPoint{slot: 100, from: 100}},
		"checkpoint ahead of slot":          {slot: 80, saved: checkpointAt(100, 90, "7"), want: startPoint{slot: 80, from: 100, expect: 90, expectXID: 7, lastEnd: 90, lastXID: 7}},
		"slot past the last commit":         {slot: 95, saved: checkpointAt(100, 90, "7"), want: startPoint{slot: 95, from: 100, lastEnd: 90, lastXID: 7}},
		"slot at the last commit's end":     {slot: 90, saved: checkpointAt(100, 90, "7"), want: startPoint{slot: 90, from: 100, lastEnd: 90, lastXID: 7}},
		"other tables than before":          {slot: 80, saved: otherTables, want: startPoint{slot: 80, from: 100, expect: 90, expectXID: 7}},
		"idle checkpoint without a commit":  {slot: 80, saved: checkpointAt(100, 0, ""), want: startPoint{slot: 80, from: 100}},
		"checkpoint without a position":     {slot: 80, saved: checkpointAt(0, 0, ""), want: startPoint{slot: 80, from: 80}},
		"slot ahead of checkpoint":          {slot: 120, saved: checkpointAt(100, 90, "7"), reason: "slot_ahead"},
		"foreign checkpoint":                {slot: 80, saved: foreign, reason: "foreign_checkpoint"},
		"unreadable checkpoint":             {slot: 80, saved: unreadable, reason: "bad_checkpoint"},
		"unreadable xid":                    {slot: 80, saved: badXID, reason: "bad_checkpoint"},
		"reconnect goes on where it was":    {slot: 80, handedOn: handedOn{end: 150}, confirmed: 80, want: startPoint{slot: 80, from: 150}},
		"slot rewound by a crash":           {slot: 60, handedOn: handedOn{end: 150}, confirmed: 80, want: startPoint{slot: 60, from: 150}},
		"slot moved while we ran":           {slot: 90, handedOn: handedOn{end: 150}, confirmed: 80, reason: "slot_moved"},
		"server behind the checkpoint":      {slot: 80, flushed: 99, saved: checkpointAt(100, 90, "7"), reason: "history_lost"},
		"server behind a part handed on":    {slot: 80, flushed: 155, handedOn: handedOn{end: 150, part: part{commit: 160}}, confirmed: 80, reason: "history_lost"},
		"standby behind the checkpoint":     {slot: 80, flushed: 99, saved: checkpointAt(100, 90, "7")},
		"standby of another history":        {slot: 80, flushed: 99, saved: checkpointAt(100, 0, ""), before: 2, forks: map[uint32]lsn{2: 99}, reason: "timeline_fork"},
		"promotion after our position":      {slot: 80, saved: checkpointAt(100, 0, ""), before: 2, forks: map[uint32]lsn{2: 100}, want: startPoint{slot: 80, from: 100}},
		"promotion before our position":     {slot: 80, saved: checkpointAt(100, 0, ""), before: 2, forks: map[uint32]lsn{2: 99}, reason: "timeline_fork"},
		"promotion from an unknown history": {slot: 80, saved: checkpointAt(100, 0, ""), before: 2, forks: map[uint32]lsn{1: 200}, reason: "timeline_fork"},
	} {
		t.Run(name, func(t *testing.T) {
			sv := server{source: here(), standby: strings.HasPrefix(name, "standby"), slot: tt.slot, flushed: tt.flushed, timeline: 3, before: tt.before, forks: tt.forks}
			if sv.flushed == 0 {
				sv.flushed = 1000
			}
			got, err := resolve(sv, tt.saved, tt.handedOn, tt.confirmed)
			var stop *cdc.StopError
			switch {
			case sv.standby && (err == nil || cdc.ReasonOf(err) != tt.reason):
				t.Errorf("got %v, want an error that may pass, or %q", err, tt.reason)
			case tt.reason == "" && !sv.standby && (err != nil || got != tt.want):
				t.Errorf("got %+v, %v; want %+v", got, err, tt.want)
			case tt.reason != "" && (!errors.As(err, &stop) || stop.Reason != tt.reason || stop.Class != cdc.ClassPosition):
				t.Errorf("got %v, want reason %s", err, tt.reason)
			case (tt.reason == "history_lost" || tt.reason == "timeline_fork") && !strings.HasPrefix(stop.Fix, "see that source.postgres.dsn leads to the present primary"):
				t.Errorf("its fix: %s", stop.Fix)
			}
		})
	}
}

// What was altered is repaired first: accepting that a table has left would forget it.
func TestCheckMeanwhile(t *testing.T) {
	now := postgres.Fingerprint{"publication": "1 1", "public.a": "2 2"}
	for name, tt := range map[string]struct{ before, left, reason string }{
		"as it was":             {"publication=1+1&public.a=2+2", "", ""},
		"a table that has left": {"publication=1+1&public.a=2+2&public.b=3+3", "public.b", "table_left"},
		"one that is gone":      {"publication=1+1&public.a=2+2&public.c=3+3", "", ""},
		"altered, too":          {"publication=1+1&public.a=2+1&public.b=3+3", "public.b", cdc.PublicationAltered},
	} {
		saved := checkpointAt(100, 90, "7").checkpoint
		saved.Source.Fingerprint = tt.before
		rules := startRules{opts: &Options{Options: postgres.Options{Tables: []string{"public.a"}}}, baseline: now, left: tt.left}
		err := rules.checkMeanwhile(saved)
		if cdc.ReasonOf(err) != tt.reason || (err == nil) != (tt.reason == "") {
			t.Errorf("%s: %v", name, err)
		}
		if fix := cdc.Fix(err); tt.reason == "table_left" && !strings.Contains(fix, "`cdc-relay position set 0/64`") {
			t.Errorf("%s: its fix: %s", name, fix)
		}
	}
}

// What the server has before the checkpoint's position may tell that it is of another history: until the server has come there nothing is
// confirmed.
func TestNothingIsConfirmedBeforeTheCheckpoint(t *testing.T) {
	ss := fedSession(&feed{}, nil)
	ss.startAt = startPoint{slot: 80, from: 100}
	ss.prepare(nil)
	for _, tt := range [][2]lsn{{0, 0}, {99, 0}, {100, 100}} {
		ss.reached = tt[0]
		ss.advance()
		if got := ss.src.lastConfirmed(); got != tt[1] {
			t.Errorf("at %s %s is confirmed", tt[0], got)
		}
	}
}

// A position that was read behind a promotion has the former timeline for a moment. It is known to be of the server's history
// until the server is restarted.
func TestFollow(t *testing.T) {
	const fork, position = 99, 100
	for name, tt := range map[string]struct {
		before cdc.Source
		want   bool
	}{
		"the server that was read":    {cdc.Source{Timeline: 2, Server: "1.5"}, true},
		"another one, or restarted":   {cdc.Source{Timeline: 2, Server: "1.4"}, false},
		"saved by an earlier version": {cdc.Source{Timeline: 2}, false},
		"none was read":               {cdc.Source{}, true},
	} {
		sv := server{source: cdc.Source{Server: "1.5"}, flushed: 1000, timeline: 3, forks: map[uint32]lsn{2: fork}}
		sv.follow(tt.before)
		if err := checkHistory(sv, position); (err == nil) != tt.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPositions(t *testing.T) {
	for _, text := range []cdc.Position{"16/B374D848", "00000016B374D848"} {
		p, err := postgres.ParsePosition(text)
		if err != nil || p != "00000016B374D848" || postgres.DisplayPosition(p) != "16/B374D848" {
			t.Errorf("%s: %s, %v", text, p, err)
		}
	}
	for _, text := range []cdc.Position{"16", "x/y", "00000016B374D84", "zz000016B374D848"} {
		if p, err := postgres.ParsePosition(text); err == nil {
			t.Errorf("%s was read as %s", text, p)
		}
	}
	if p, err := postgres.ParsePosition(""); p != "" || err != nil {
		t.Errorf("none: %s, %v", p, err)
	}
}

func testTime(millis int) time.Time { return time.UnixMilli(int64(millis)) }
