// Command shop takes orders over HTTP and reserves stock for them. It shows both ends of an outbox: an API with idempotency
// keys and a unit of work, and a consumer with an inbox. docs/tutorial.md leads through it.
//
//	shop migrate    create the tables
//	shop serve      serve the API
//	shop consume    reserve stock for the events of orders
//
// Settings are environment variables: DATABASE ("postgres", "mysql" or "mariadb"), DATABASE_URL, SHOP_PASSWORD, SHOP_ADDR,
// KAFKA, SHOP_TOPIC and SHOP_INSTANCE (of each consumer its own).
package main

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-relay/cdc-relay/inbox"
	"github.com/cdc-relay/cdc-relay/inbox/parking"
	"github.com/cdc-relay/cdc-relay/writer"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, strings.Join(os.Args[1:], " "))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "shop:", err)
		os.Exit(1)
	}
}

func setting(name, otherwise string) string { return cmp.Or(os.Getenv(name), otherwise) }

func run(ctx context.Context, command string) error {
	db, err := openDatabase(setting("DATABASE", "postgres"), os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	in, err := openInbox(db)
	if err != nil {
		return err
	}
	switch command {
	case "migrate":
		return db.migrate(ctx)
	case "serve":
		return serve(ctx, db, in)
	case "consume":
		topic := setting("SHOP_TOPIC", "orders")
		return consume(ctx, db, in,
			kgo.SeedBrokers(strings.Split(setting("KAFKA", "localhost:9092"), ",")...), kgo.ConsumerGroup("stock."+topic), kgo.ConsumeTopics(topic),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
			kgo.InstanceID(setting("SHOP_INSTANCE", "stock-1"))) // restarted, the process takes its place in the group back at once
	default:
		return fmt.Errorf("unknown command %q: use migrate, serve or consume", command)
	}
}

// serve serves the API until ctx ends, and then lets requests finish.
func serve(ctx context.Context, db database, in *inbox.Inbox[*sql.Tx]) error {
	events, err := writer.New(db.transactions.Dialect())
	if err != nil {
		return err
	}
	parked, err := parking.New(in)
	if err != nil {
		return err
	}
	a := &api{db: db, events: events, password: os.Getenv("SHOP_PASSWORD"), log: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	if a.password == "" {
		return errors.New("there is no password: set SHOP_PASSWORD")
	}
	handler, err := a.handler(parked.Handler())
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", setting("SHOP_ADDR", "localhost:8080"))
	if err != nil {
		return err
	}
	fmt.Println("serving orders at http://" + listener.Addr().String())
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	stopped := make(chan error, 1)
	context.AfterFunc(ctx, func() {
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		stopped <- server.Shutdown(limit)
	})
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-stopped
}
