package wal

import (
	"cmp"
	"strconv"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/postgres"
)

// storedCheckpoint is the checkpoint a run starts from.
type storedCheckpoint struct {
	checkpoint cdc.Checkpoint
	found      bool
}

// server is what the start rules need to know of the database.
type server struct {
	source   cdc.Source
	slot     lsn // S: the slot's confirmed_flush_lsn
	flushed  lsn // the end of the server's WAL
	timeline uint32
	standby  bool
	// before is the timeline of our position: the checkpoint's, or the one this process last saw;
	// 0: unknown.
	before uint32
	// forks holds, for each timeline before this one, the LSN at which the history left it.
	forks map[uint32]lsn
}

// follow notes the timeline of a position that was read from before. A standby that is promoted while it is read sends rows of its
// new timeline before the relay notices, so positions have the former one for a moment. The history of a server that was
// not restarted since has all that it sent.
func (sv *server) follow(before cdc.Source) {
	sv.before = before.Timeline
	if before.Server != "" && before.Server == sv.source.Server {
		sv.before = sv.timeline
	}
}

// startPoint is what a run does with the stream.
type startPoint struct {
	// slot is where the server starts from.
	slot lsn
	// from: transactions that end here or before are dropped.
	from lsn
	// expect, if not 0, is the end of a commit that must come again, with expectXID, before anything
	// later does and before anything is confirmed.
	expect    lsn
	expectXID uint32
	// lastEnd is the end of the last transaction with outbox rows that is known, lastXID its xid; carried on into new checkpoints. 0: not
	// known, also of tables or a publication that are not those of the checkpoint.
	lastEnd lsn
	lastXID uint32
	// xmin is the checkpoint's horizon; 0: not known.
	xmin uint64
}

// startRules decide where a run goes on. Of a relay that has not run yet there is nothing but the options and the publication.
type startRules struct {
	opts      *Options
	baseline  postgres.Fingerprint // of the publication now
	read      cdc.Source           // what was read before
	handedOn  handedOn
	confirmed lsn
	left      string // see leftTables
}

// apply returns where to go on, and what was handed on before.
func (r startRules) apply(sv server, stored storedCheckpoint) (startPoint, handedOn, error) {
	before := r.read
	if before == (cdc.Source{}) && stored.found {
		before = stored.checkpoint.Source
	}
	sv.follow(before)
	at := r.handedOn
	if at == (handedOn{}) {
		var err error
		if at, err = handedOnBefore(stored.checkpoint, r.opts.Tables); err != nil {
			return startPoint{}, handedOn{}, err
		}
	}
	p, err := resolve(sv, stored, at, r.confirmed)
	if err != nil {
		return startPoint{}, handedOn{}, err
	}
	return p, at, r.checkMeanwhile(stored.checkpoint)
}

// resolve applies the start rules: where to go on, given the server, the checkpoint and what this
// process itself handed on before (handedOn; zero at the first attempt). confirmed is the last position
// this process told the server; 0: none.
//
//  1. A checkpoint of another source is refused.
//  2. A timeline that forked after our position is ours (a promotion); before it, another history.
//  3. P is the checkpoint, else the slot. A slot ahead of the checkpoint is a conflict: a store that
//     lost its last writes and a slot that was moved look alike.
//  4. A server whose WAL ends before P has lost history; a standby may only not have replayed it yet.
//  5. When the slot stands before the last outbox commit, that commit must come again.
//  6. Between that commit and P no row of an outbox may come. A server whose disk was put back to an earlier state (a snapshot, a replicated
//     disk) is refused by rule 4 only until other traffic has pushed its WAL past P; its own rows before P would be dropped.
func resolve(sv server, sd storedCheckpoint, at handedOn, confirmed lsn) (startPoint, error) {
	c, err := readCheckpoint(sv, sd)
	if err != nil {
		return startPoint{}, err
	}
	if err := sd.checkpoint.Progress.Unfinished(); err != nil {
		return startPoint{}, err
	}
	if confirmed > 0 && sv.slot > confirmed {
		return startPoint{}, cdc.PositionError(cdc.SlotMoved,
			"publish the events committed between them with `cdc-relay repair`, without a checkpoint `cdc-relay repair --since TIME`; or, if consumers have them, start the relay again, with a checkpoint after `cdc-relay position reset --skip-events`",
			"slot is at %s, but this relay confirmed only %s: it was moved or recreated", sv.slot, confirmed)
	}
	p := startPoint{slot: sv.slot, from: sv.slot}
	if sd.found && c.resume > 0 {
		if p, err = fromCheckpoint(sv, c); err != nil {
			return startPoint{}, err
		}
		p.xmin = c.xmin
		if sd.checkpoint.Source.Fingerprint != sv.source.Fingerprint { // no row of a new table was looked for before P
			p.lastEnd, p.lastXID = 0, 0
		}
	}
	if at.end > p.from {
		p.from = at.end
	}
	if err := checkHistory(sv, max(p.from, at.commit)); err != nil {
		return startPoint{}, err
	}
	return p, nil
}

func readCheckpoint(sv server, sd storedCheckpoint) (mark, error) {
	if !sd.found {
		return mark{}, nil
	}
	c := sd.checkpoint
	if !c.Source.Same(sv.source) {
		return mark{}, cdc.PositionError("foreign_checkpoint",
			"give this relay its own checkpoint key; or, if this database or slot has replaced the other one, drop its checkpoint with `cdc-relay position reset`, then "+sinceThen,
			"checkpoint belongs to another source (system %s, database %s, slot %s), this one is system %s, database %s, slot %s",
			c.Source.SystemID, c.Source.Database, c.Source.Slot, sv.source.SystemID, sv.source.Database, sv.source.Slot)
	}
	var k mark
	var bad [4]error
	k.resume, bad[0] = postgres.ParseLSN(c.Progress.Position)
	k.lastEnd, bad[1] = postgres.ParseLSN(c.Progress.Commit)
	k.xmin, bad[2] = postgres.ParseXMin(c.Progress.XMin)
	var xid uint64
	xid, bad[3] = strconv.ParseUint(cmp.Or(c.Progress.TxID, "0"), 10, 32)
	if err := cmp.Or(bad[:]...); err != nil {
		return k, badCheckpoint(err)
	}
	k.lastXID = uint32(xid)
	return k, nil
}

func fromCheckpoint(sv server, c mark) (startPoint, error) {
	p := startPoint{slot: sv.slot, from: c.resume, lastEnd: c.lastEnd, lastXID: c.lastXID}
	switch {
	case sv.slot > c.resume:
		return p, cdc.PositionError("slot_ahead",
			"publish the events committed between them with `cdc-relay repair`; or, if consumers have them, continue from the slot with `cdc-relay position reset --skip-events`",
			"slot is at %s, ahead of the checkpoint at %s (the checkpoint store lost its last writes, or the slot was moved or recreated)", sv.slot, c.resume)
	case sv.slot < c.lastEnd:
		p.expect, p.expectXID = c.lastEnd, c.lastXID
	}
	return p, nil
}

// sinceThen publishes what consumers miss although neither slot nor checkpoint tells where that begins: the slot may have been made after
// rows were written.
const sinceThen = "publish the rows since a time before the first event that consumers miss, and continue from the slot, with `cdc-relay repair --since TIME`"

// fixPrimary comes first: repair at the old primary of a failover would publish what only that one has.
const fixPrimary = "see that source.postgres.dsn leads to the present primary; if it does, "

func checkHistory(sv server, from lsn) error {
	if sv.flushed < from && !sv.standby {
		return cdc.PositionError("history_lost", fixPrimary+sinceThen,
			"server's WAL ends at %s, before our position %s (it was restored from a backup, cloned, or failed over to a server that lost transactions)", sv.flushed, from)
	}
	if fork, known := sv.forks[sv.before]; sv.before != 0 && sv.before != sv.timeline && (!known || fork < from) {
		return cdc.PositionError("timeline_fork", fixPrimary+sinceThen,
			"server is on timeline %d, which left our timeline %d before our position %s, and lost transactions that were published", sv.timeline, sv.before, from)
	}
	if sv.flushed < from { // one that was restarted replays some of its WAL again
		return cdc.Fixable("wait until it has, and see that its primary runs", "PostgreSQL is a standby that has replayed its WAL up to %s, and not yet up to our position %s", sv.flushed, from)
	}
	return nil
}
