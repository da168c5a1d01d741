package binlog

import (
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
)

// storedCheckpoint is the checkpoint a run starts from.
type storedCheckpoint struct {
	checkpoint cdc.Checkpoint
	found      bool
}

// server is what the start rules need to know of the database.
type server struct {
	source cdc.Source
	flavor cdc.Flavor
	// executed is every transaction that the server has (gtid_executed; MariaDB: gtid_binlog_pos).
	executed mysql.Set
	// purged is what it has no log of any more (gtid_purged; MariaDB: before its oldest log).
	purged mysql.Set
}

// startPoint is the result of the start rules.
type startPoint struct {
	from mysql.Set
	// behind: the server does not have all of from yet. A replica that was promoted, or is read, may catch up.
	behind bool
}

// resolve applies the start rules: where to go on, given the server, the checkpoint and what this process itself
// handed on before (received; nil at the first attempt).
//
//  1. A checkpoint of another source is refused. A server's UUID is no part of it: failover changes that. It is adopted if only
//     the configured ID is new; see adopts.
//  2. P is what was received, else the checkpoint; never silently now.
//  3. What the server purged must be in P: else events between the two are gone from the binlog.
//  4. All of P must be on the server: else it has lost history, or is behind.
func resolve(sv server, sd storedCheckpoint, received mysql.Set, fromNow bool) (startPoint, error) {
	from := received
	if from == nil {
		var err error
		if from, err = beginning(sv, sd, fromNow); err != nil {
			return startPoint{}, err
		}
	}
	if !from.Covers(sv.purged) {
		return startPoint{}, cdc.PositionError("binlog_purged",
			"publish what it held from the outbox table, and move the position, with `cdc-relay repair`; then keep binlogs for longer (binlog_expire_logs_seconds; on RDS `binlog retention hours`)",
			"server has purged its binlog past our position: it has nothing before %s any more, and our position is %s", sv.purged, from)
	}
	return startPoint{from: from, behind: !sv.executed.Covers(from)}, nil
}

func beginning(sv server, sd storedCheckpoint, fromNow bool) (mysql.Set, error) {
	if sd.found {
		c := sd.checkpoint
		if err := c.Progress.Unfinished(); err != nil && c.Source.Same(sv.source) {
			return nil, err
		}
		set, err := mysql.ParseSet(sv.flavor, string(c.Progress.Position))
		if !c.Source.Same(sv.source) && (err != nil || !sv.adopts(c, set)) {
			return nil, foreignCheckpoint(c.Source, sv.source)
		}
		if err != nil {
			return nil, cdc.PositionError("bad_checkpoint", "drop it with `cdc-relay position reset`", "checkpoint cannot be used (%s)", err)
		}
		return set, nil
	}
	if fromNow {
		return sv.executed.Clone(), nil
	}
	return nil, cdc.PositionError("no_checkpoint",
		"for a first run store the position with `cdc-relay setup`; if one was stored and is lost, publish what consumers may lack, and store the position, with `cdc-relay repair --since TIME`, or with `cdc-relay position set POSITION` if it is known from a log or a backup, or begin with `cdc-relay position set earliest` (repeats what the binlog still holds) or `cdc-relay position set current --skip-events` (skips what was committed before)",
		"no checkpoint is stored, so where to begin is not known")
}

func foreignCheckpoint(of, id cdc.Source) error {
	return cdc.PositionError("foreign_checkpoint",
		"give this relay its own checkpoint, or set source.mysql.id to what it was; if this database has replaced the other one, drop the checkpoint with `cdc-relay position reset`, then publish what consumers may lack, and store a position, with `cdc-relay repair --since TIME`",
		"checkpoint belongs to another source (%s, database %s), this one is %s, database %s", of.SystemID, of.Database, id.SystemID, id.Database)
}

// adopts reports whether a checkpoint of another source was saved by a relay on this server before source.mysql.id was set: it is of
// the same database, without an ID, and the server has executed its position. Only the same history has the transactions of a MySQL
// position, which have the server's UUID. On MariaDB GTIDs of different servers can be the same, so [Source.openBehind] must find
// the transaction that the checkpoint holds with its time.
func (sv *server) adopts(c cdc.Checkpoint, position mysql.Set) bool {
	without := cdc.Source{SystemID: string(sv.flavor), Database: sv.source.Database}
	return c.Source.Same(without) && c.Progress.Position != "" && sv.executed != nil && sv.executed.Covers(position) &&
		(sv.flavor == cdc.MySQL || parseStamp(sv.flavor, c.Progress.Commit).at > 0)
}

func historyLost(sv server, from mysql.Set) error {
	return cdc.PositionError("history_lost",
		"see that source.mysql.dsn leads to the present primary; start the relay again later if the server is a replica that lags; otherwise "+sinceThen,
		"server has not executed all that was published: it has reached %s, our position is %s (it was restored from a backup, or a failover lost transactions)", sv.executed, from)
}
