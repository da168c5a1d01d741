package binlog

import (
	"errors"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

const (
	serverA = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
	serverB = "4e11fa47-71ca-11e1-9e33-c80aa9429562"
)

func here() cdc.Source { return cdc.Source{SystemID: "mysql", Database: "d"} }

func at(position string) storedCheckpoint {
	return storedCheckpoint{checkpoint: cdc.Checkpoint{Source: here(), Progress: cdc.Progress{Position: cdc.Position(position)}}, found: true}
}

func TestResolve(t *testing.T) {
	const a = serverA
	elsewhere := at(a + ":1-5")
	elsewhere.checkpoint.Source.Database = "other"
	start, renamed := at(""), at(a+":1-5")
	renamed.checkpoint.Source.SystemID = "another"
	for name, tt := range map[string]struct {
		executed, purged string
		saved            storedCheckpoint
		received         string // "": nothing yet
		id               string // source.mysql.id; "": none
		fromNow          bool
		from             string
		behind           bool
		reason           string // of the refusal
	}{
		"checkpoint":                          {executed: a + ":1-9", purged: a + ":1-3", saved: at(a + ":1-5"), from: a + ":1-5"},
		"checkpoint at the edge of the purge": {executed: a + ":1-9", purged: a + ":1-5", saved: at(a + ":1-5"), from: a + ":1-5"},
		"purged past the checkpoint":          {executed: a + ":1-9", purged: a + ":1-6", saved: at(a + ":1-5"), reason: "binlog_purged"},
		"purged of a server that we never saw": {
			executed: a + ":1-9," + serverB + ":1-4", purged: serverB + ":1-2", saved: at(a + ":1-5"), reason: "binlog_purged",
		},
		"server behind":                   {executed: a + ":1-4", saved: at(a + ":1-5"), from: a + ":1-5", behind: true},
		"server of another history":       {executed: serverB + ":1-9", saved: at(a + ":1-5"), from: a + ":1-5", behind: true},
		"foreign checkpoint":              {executed: a + ":1-9", saved: elsewhere, reason: "foreign_checkpoint"},
		"checkpoint that is no set":       {executed: a + ":1-9", saved: at("0-1-42"), reason: "bad_checkpoint"},
		"ID set for the first time":       {executed: a + ":1-9", saved: at(a + ":1-5"), id: "orders", from: a + ":1-5"},
		"ID set, another server":          {executed: serverB + ":1-9", saved: at(a + ":1-5"), id: "orders", reason: "foreign_checkpoint"},
		"ID set, the start of the binlog": {executed: a + ":1-9", saved: start, id: "orders", reason: "foreign_checkpoint"},
		"ID set, another database":        {executed: a + ":1-9", saved: elsewhere, id: "orders", reason: "foreign_checkpoint"},
		"ID changed":                      {executed: a + ":1-9", saved: renamed, id: "orders", reason: "foreign_checkpoint"},
		"ID taken out":                    {executed: a + ":1-9", saved: renamed, reason: "foreign_checkpoint"},
		"nothing stored":                  {executed: a + ":1-9", reason: "no_checkpoint"},
		"nothing stored, current":         {executed: a + ":1-9", purged: a + ":1-3", fromNow: true, from: a + ":1-9"},
		"stored, current":                 {executed: a + ":1-9", saved: at(a + ":1-5"), fromNow: true, from: a + ":1-5"},
		"reconnect behind what is stored": {executed: a + ":1-9", saved: at(a + ":1-5"), received: a + ":1-7", from: a + ":1-7"},
		"reconnect, purged since":         {executed: a + ":1-9", purged: a + ":1-8", saved: at(a + ":1-5"), received: a + ":1-7", reason: "binlog_purged"},
	} {
		t.Run(name, func(t *testing.T) {
			set := func(text string) mysql.Set {
				s, err := mysql.ParseSet(cdc.MySQL, text)
				testenv.Must(t, err)
				return s
			}
			var received mysql.Set
			if tt.received != "" {
				received = set(tt.received)
			}
			sv := server{source: here(), flavor: cdc.MySQL, executed: set(tt.executed), purged: set(tt.purged)}
			if tt.id != "" {
				sv.source.SystemID = tt.id
			}
			v, err := resolve(sv, tt.saved, received, tt.fromNow)
			var stop *cdc.StopError
			if tt.reason != "" {
				if !errors.As(err, &stop) || stop.Reason != tt.reason || stop.Class != cdc.ClassPosition {
					t.Fatalf("%v, want %s", err, tt.reason)
				}
				if stop.Fix == "" || strings.Contains(stop.Error(), "cdc-relay") {
					t.Errorf("cause %q, fix %q: what to do belongs to the fix", stop, stop.Fix)
				}
				return
			}
			if err != nil || v.from.String() != tt.from || v.behind != tt.behind {
				t.Errorf("%v behind %v, %v; want %s behind %v", v.from, v.behind, err, tt.from, tt.behind)
			}
		})
	}
}

// On MariaDB GTIDs of different servers can be the same: a checkpoint without a transaction and its time is not adopted.
func TestAdoptOnMariaDB(t *testing.T) {
	for commit, want := range map[cdc.Position]bool{"": false, "0-1-5@": false, "0-1-5@1700000000000000": true} {
		c := cdc.Checkpoint{Source: cdc.Source{SystemID: "mariadb", Database: "d"}, Progress: cdc.Progress{Position: "0-1-5", Commit: commit}}
		executed, err := mysql.ParseSet(cdc.MariaDB, "0-1-9")
		purged, perr := mysql.ParseSet(cdc.MariaDB, "")
		if err != nil || perr != nil {
			t.Fatal(err, perr)
		}
		sv := server{source: cdc.Source{SystemID: "orders", Database: "d"}, flavor: cdc.MariaDB, executed: executed, purged: purged}
		if _, err := resolve(sv, storedCheckpoint{c, true}, nil, false); (err == nil) != want {
			t.Errorf("%q: %v", commit, err)
		}
	}
}
