package testenv

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// ProxyServer is a TCP proxy in this process that breaks connections on request.
type ProxyServer struct {
	proxy *toxiproxy.Proxy
	port  *port
	close func() error
}

// Direction is the direction of data through a proxy.
type Direction string

// Requests flow upstream, responses downstream.
const (
	Requests  Direction = "upstream"
	Responses Direction = "downstream"
)

// startProxy starts a proxy to target (host:port).
func startProxy(ctx context.Context, target string) (*ProxyServer, error) {
	reserved, err := reservePort(ctx)
	if err != nil {
		return nil, err
	}
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	proxy := toxiproxy.NewProxy(server, "test", reserved.addr(), target)
	if err := proxy.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start proxy before %s: %w", target, err), reserved.release())
	}
	return &ProxyServer{proxy: proxy, port: reserved, close: sync.OnceValue(reserved.release)}, nil
}

// Addr returns the host:port to connect to.
func (p *ProxyServer) Addr() string { return p.port.addr() }

// Cut closes every connection and refuses new ones until Restore.
func (p *ProxyServer) Cut() { p.proxy.Stop() }

// Restore accepts connections again after Cut.
func (p *ProxyServer) Restore() error {
	if err := p.proxy.Start(); err != nil && !errors.Is(err, toxiproxy.ErrProxyAlreadyStarted) {
		return fmt.Errorf("restore proxy: %w", err)
	}
	return nil
}

// Redirect closes every connection and directs new ones to another target, like an address that follows the primary.
func (p *ProxyServer) Redirect(target string) error {
	p.Cut()
	if err := p.proxy.Update(&toxiproxy.Proxy{Listen: p.Addr(), Upstream: target, Enabled: true}); err != nil {
		return fmt.Errorf("redirect proxy to %s: %w", target, err)
	}
	return nil
}

// Swallow drops all data of one direction until Heal; connections stay open.
func (p *ProxyServer) Swallow(d Direction) error {
	return p.add(fmt.Sprintf(`{"name":"swallow-%s","type":"timeout","stream":%q,"attributes":{"timeout":0}}`, d, d))
}

// Delay delays the data of one direction until Heal.
func (p *ProxyServer) Delay(d Direction, by time.Duration) error {
	return p.add(fmt.Sprintf(`{"name":"delay-%s","type":"latency","stream":%q,"attributes":{"latency":%d}}`, d, d, by.Milliseconds()))
}

func (p *ProxyServer) add(toxic string) error {
	if _, err := p.proxy.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
		return fmt.Errorf("break proxy: %w", err)
	}
	return nil
}

// Heal ends Swallow and Delay. It closes connections from which Swallow has dropped data.
func (p *ProxyServer) Heal(ctx context.Context) { p.proxy.Toxics.ResetToxics(ctx) }

// Close ends the proxy.
func (p *ProxyServer) Close() error {
	p.proxy.Stop()
	return p.close()
}
