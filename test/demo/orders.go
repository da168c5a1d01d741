package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

const (
	// ordersSuffix ends the topic of the shop's events.
	ordersSuffix = "-orders"
	// wanted is how many orders are placed, each of one piece.
	wanted = 200

	password = "demo"
)

// orders is examples/shop, an API and a consumer, in its processes.
type orders struct {
	binary, dir, addr string
	release           func() error // of the port
	env               []string
	api, consumer     *process

	placed, reserved int // in the end
}

// process is one of the shop's.
type process struct {
	cmd  *exec.Cmd
	kill func()
}

// order places orders at examples/shop, sends each request twice, and kills the API and the consumer meanwhile. Nothing is
// ordered if the relay has failed.
func (d *demo) order(ctx context.Context) error {
	if !d.arrived {
		return nil
	}
	if err := d.openOrders(ctx); err != nil {
		return fmt.Errorf("start examples/shop: %w", err)
	}
	o := d.orders
	d.screen.say("shop     examples/shop: %d orders over HTTP, each request sent twice with one Idempotency-Key", wanted)
	third := wanted / 3
	if err := o.place(ctx, 0, third); err != nil {
		return err
	}
	for i, p := range []**process{&o.api, &o.consumer} {
		var killed errgroup.Group
		killed.Go(func() error { return d.killPart(p, []string{"serve", "consume"}[i]) })
		err := o.place(ctx, (i+1)*third, []int{2 * third, wanted}[i])
		if err := errors.Join(err, killed.Wait()); err != nil {
			return err
		}
	}
	return d.awaitStock(ctx)
}

func (d *demo) openOrders(ctx context.Context) (err error) {
	d.orders = &orders{binary: d.example, dir: d.dir, env: append(os.Environ(),
		"DATABASE="+d.kind, "DATABASE_URL="+d.servers.backend.ownerDSN(), "KAFKA="+strings.Join(d.servers.brokers, ","),
		"SHOP_TOPIC="+d.topic+ordersSuffix, "SHOP_PASSWORD="+password)}
	o := d.orders
	if o.addr, o.release, err = testenv.ReservePort(ctx); err != nil {
		return err
	}
	o.env = append(o.env, "SHOP_ADDR="+o.addr)
	if o.binary == "" {
		o.binary = filepath.Join(d.dir, "shop")
		if err := buildExample(ctx, o.binary); err != nil {
			return err
		}
	}
	migrate := exec.CommandContext(ctx, o.binary, "migrate")
	migrate.Env = o.env
	if said, err := migrate.CombinedOutput(); err != nil {
		return fmt.Errorf("shop migrate: %w: %s", err, said)
	}
	if o.api, err = o.start("serve"); err != nil {
		return err
	}
	o.consumer, err = o.start("consume")
	return err
}

func buildExample(ctx context.Context, path string) error {
	said, err := exec.CommandContext(ctx, "go", "build", "-o", path, "github.com/cdc-relay/cdc-relay/examples/shop").CombinedOutput()
	if err != nil {
		return fmt.Errorf("build examples/shop: %w: %s", err, said)
	}
	return nil
}

// start starts a command of the shop, whose output is added to shop.log.
func (o *orders) start(command string) (*process, error) {
	log, err := os.OpenFile(filepath.Join(o.dir, "shop.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(o.binary, command) //nolint:noctx // it is killed
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = o.env, log, log, cdctest.DieWithParent()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &process{cmd, sync.OnceFunc(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })}, nil
}

// killPart kills a process of the shop and starts it again.
func (d *demo) killPart(p **process, command string) (err error) {
	old := *p
	old.kill()
	if *p, err = d.orders.start(command); err == nil {
		d.screen.say("kill -9  shop %s %d is gone, %d takes over", command, old.cmd.Process.Pid, (*p).cmd.Process.Pid)
	}
	return err
}

// place places the orders from to to.
func (o *orders) place(ctx context.Context, from, to int) error {
	var customers errgroup.Group
	customers.SetLimit(4)
	for i := from; i < to; i++ {
		customers.Go(func() error {
			first, err := o.request(ctx, i)
			if err != nil {
				return err
			}
			if second, err := o.request(ctx, i); err != nil || second != first {
				return fmt.Errorf("order %d: the second answer is not the first: %q, %q, %w", i, first, second, err)
			}
			return nil
		})
	}
	return customers.Wait()
}

// request sends the request of an order until it is answered, as a client does whose connection was lost.
func (o *orders) request(ctx context.Context, i int) (body string, err error) {
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err = cdctest.Await(waiting, "an answer of the shop", func(ctx context.Context) (bool, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+o.addr+"/orders", strings.NewReader(`{"item": "pen", "quantity": 1}`))
		if err != nil {
			return false, err
		}
		r.SetBasicAuth("alice", password)
		r.Header.Set("Idempotency-Key", fmt.Sprintf("%q", fmt.Sprint("order-", i)))
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			return false, nil
		}
		defer func() { _ = response.Body.Close() }()
		text, err := io.ReadAll(response.Body)
		body = string(text)
		switch {
		case err != nil || response.StatusCode == http.StatusConflict || response.StatusCode >= 500:
			return false, nil
		case response.StatusCode != http.StatusCreated:
			return false, fmt.Errorf("order %d: status %d: %s", i, response.StatusCode, body)
		}
		return true, nil
	})
	return body, err
}

// awaitStock waits until the events of all orders took effect.
func (d *demo) awaitStock(ctx context.Context) error {
	waiting, cancel := context.WithTimeout(ctx, 2*patience) // the consumer's group may change, too
	defer cancel()
	o := d.orders
	err := cdctest.Await(waiting, "the reserved stock", func(ctx context.Context) (bool, error) {
		err := d.shop.db.QueryRowContext(ctx, "SELECT reserved FROM stock WHERE item = 'pen'").Scan(&o.reserved)
		return o.reserved >= wanted, err
	})
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = nil // judge reports it
	}
	return errors.Join(err, d.shop.db.QueryRowContext(ctx, "SELECT count(*) FROM orders").Scan(&o.placed))
}

// check is part of judge.
func (o *orders) check() error {
	if o != nil && (o.placed != wanted || o.reserved != wanted) {
		return fmt.Errorf("%d orders were wanted, there are %d with %d reserved pieces", wanted, o.placed, o.reserved)
	}
	return nil
}

func (o *orders) close() {
	for _, p := range []*process{o.api, o.consumer} {
		if p != nil {
			p.kill()
		}
	}
	if o.release != nil {
		_ = o.release()
	}
	http.DefaultClient.CloseIdleConnections()
}
