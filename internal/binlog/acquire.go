package binlog

import (
	"context"
	"database/sql"
	"strconv"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
)

const (
	acquireTimeout = 40 * time.Second
	// catchUp is how long a server that lacks transactions we have published may take to get them: one that
	// was promoted, or is a replica, may still be applying them.
	catchUp = 20 * time.Second
)

// Acquire connects, takes the leader's lock, and only then calls load for the checkpoint: the previous leader may have saved
// until the end. It applies the start rules (see resolve) and requests the binlog. When it returns without error the server has agreed to send it, nothing was handed on, and Run
// may be called. It returns the source's identity and the position from which rows will be handed on.
//
// Errors: [cdc.ErrStandby] while another relay holds the lock; a [cdc.StopError] when only a person can fix it; anything
// else is retryable.
func (s *Source) Acquire(ctx context.Context, load cdc.Resumer) (_ cdc.Source, _ cdc.Position, err error) {
	ctx, cancel := context.WithTimeout(ctx, acquireTimeout)
	defer cancel()
	defer func() {
		if err != nil {
			s.leader.Release() // another relay may have what this one lacks
		}
	}()
	db, cfg, err := mysql.Connect(ctx, &s.opts.Options)
	if err != nil {
		return cdc.Source{}, "", err
	}
	defer func() { _ = db.Close() }()
	id, from, err := s.resolveStart(ctx, db, cfg, load)
	if err != nil {
		return cdc.Source{}, "", err
	}
	charsets, err := mysql.ReadCharsets(ctx, db, s.flavor)
	if err != nil {
		return cdc.Source{}, "", err
	}
	ss, err := s.openBehind(ctx, newDialer(cfg, s.flavor, s.account), from)
	if err != nil {
		return cdc.Source{}, "", err
	}
	if err := ss.watch(ctx); err != nil {
		ss.close()
		return cdc.Source{}, "", err
	}
	ss.charsets, ss.from = charsets, from
	s.session = ss
	return id, cdc.Position(from.String()), nil
}

// checkServer checks settings and tables, in the order in which a person would fix them.
func (s *Source) checkServer(ctx context.Context, db *sql.DB, cfg *driver.Config) (server, mysql.Variables, error) {
	vars, err := mysql.ReadVariables(ctx, db)
	if err != nil {
		return server{}, nil, err
	}
	if err := vars.Problem(&s.opts.Options); err != nil {
		return server{}, nil, err
	}
	if err := vars.ReplicaProblem(ctx, db); err != nil {
		return server{}, nil, err
	}
	if err := vars.Filtered(ctx, db, s.opts.Tables); err != nil {
		return server{}, nil, err
	}
	s.flavor, s.caseless, s.account = vars.Flavor(), vars.Caseless(), mysql.Account(ctx, db)
	s.show(vars)
	if err := mysql.CheckTables(ctx, db, s.opts.Tables, s.caseless); err != nil {
		return server{}, nil, err
	}
	return server{source: s.opts.Source(s.flavor, cfg.DBName), flavor: s.flavor}, vars, nil
}

// show publishes what the server says of itself.
func (s *Source) show(vars mysql.Variables) {
	flavor := s.flavor
	s.server.Store(&flavor)
	if keeps, err := strconv.ParseFloat(vars["binlog_expire_logs_seconds"], 64); err == nil {
		s.metrics.expire.Set(keeps)
	}
}

// lead takes the lock, unless the source reads beside the relay that leads.
func (s *Source) lead(ctx context.Context, db *sql.DB, cfg *driver.Config, id cdc.Source) error {
	if s.opts.NoLock {
		return nil
	}
	return s.leader.Lead(ctx, db, cfg, id)
}

// resolveStart checks the server, takes the lock, and applies the start rules.
func (s *Source) resolveStart(ctx context.Context, db *sql.DB, cfg *driver.Config, load cdc.Resumer) (cdc.Source, mysql.Set, error) {
	sv, vars, err := s.checkServer(ctx, db, cfg)
	if err != nil {
		return cdc.Source{}, nil, err
	}
	if err := s.lead(ctx, db, cfg, sv.source); err != nil {
		return cdc.Source{}, nil, err
	}
	c, found, err := load(ctx, sv.source)
	if err != nil {
		return cdc.Source{}, nil, err
	}
	if s.received == nil {
		s.adopting = nil
		if found && !c.Source.Same(sv.source) {
			s.adopting = foreignCheckpoint(c.Source, sv.source)
		}
		if s.next.part, err = s.partBefore(c); err != nil {
			return cdc.Source{}, nil, err
		}
		s.next.stamp, s.next.hint = parseStamp(sv.flavor, c.Progress.Commit), parseHint(c.Progress.Hint)
	}
	from, err := s.agree(ctx, db, sv, storedCheckpoint{c, found})
	if err != nil {
		return cdc.Source{}, nil, err
	}
	if s.received == nil {
		if text, _ := vars.Untested(); text != "" {
			s.log.Warn("source", "warning", text)
		}
		if c.Progress.TxID == "" { // nothing of ours was published yet: the stream would be too late a judge
			err = mysql.VerifyTables(ctx, db, s.opts.Tables, s.caseless, s.opts.Verify)
		}
	}
	return sv.source, from, err
}

// partBefore is what the checkpoint of an earlier run says about the rows of a transaction at its position.
func (s *Source) partBefore(c cdc.Checkpoint) (part, error) {
	stored := c.Progress.Part
	return part{stored.TxID, stored.Rows}, stored.SameTables(cdc.CountedTables(s.opts.Tables))
}

// has reports whether the server has executed the transaction.
func (sv *server) has(p part) bool {
	set, err := mysql.ParseSet(sv.flavor, p.tx)
	return err == nil && sv.executed.Covers(set)
}

// agree applies the start rules, and waits a while for a server that is behind.
func (s *Source) agree(ctx context.Context, db *sql.DB, sv server, sd storedCheckpoint) (mysql.Set, error) {
	for since := time.Now(); ; {
		var err error
		if sv.executed, sv.purged, err = mysql.ReadGTIDs(ctx, db, sv.flavor); err != nil {
			return nil, err
		}
		v, err := resolve(sv, sd, s.received, s.opts.FromNow)
		if err == nil && s.next.part.rows > 0 {
			v.behind = v.behind || !sv.has(s.next.part)
		}
		if err != nil || !v.behind {
			return v.from, err
		}
		if time.Since(since) > catchUp {
			return nil, historyLost(sv, v.from)
		}
		if err := cdc.Sleep(ctx, 200*time.Millisecond); err != nil {
			return nil, err
		}
	}
}
