package testenv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strconv"
	"strings"
	"syscall"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
)

// KafkaOptions are the options of a cluster. The zero value is one broker with a plaintext listener and without
// automatic creation of topics.
type KafkaOptions struct {
	Brokers  int               // 0 is 1.
	Settings map[string]string // Lines of every broker's server.properties; they replace defaults.
	JVM      []string          // Options of each JVM; nil favours a quick start over throughput.
	Secure   bool              // Adds the listeners ListenerTLS, ListenerSASL and ListenerSASLTLS.
	Proxied  bool              // Adds ListenerProxied, whose connections pass through Proxy(broker).
}

// Listener is the name of a broker's listener.
type Listener string

// The listeners of a broker.
const (
	ListenerPlain   Listener = "PLAIN"
	ListenerTLS     Listener = "TLS"
	ListenerSASL    Listener = "SASL" // PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512, without TLS.
	ListenerSASLTLS Listener = "SASLTLS"
	ListenerProxied Listener = "PROXIED"

	ListenerController Listener = "CONTROLLER"
)

// The account of the SASL listeners.
const (
	KafkaUser     = "relay"
	KafkaPassword = "relay-secret"
)

// KafkaCluster is a cluster on 127.0.0.1 whose brokers are controllers too.
type KafkaCluster struct {
	Certs *Authority // of the TLS listeners, nil without Secure

	prog    *kafkaProgram
	options KafkaOptions
	id      string
	brokers []*Broker
}

// Broker is one server of a cluster.
type Broker struct {
	ID int // from 1

	served
	cluster *KafkaCluster
	ports   map[Listener]*port
	proxy   *ProxyServer
}

// StartKafka starts a cluster and waits until every broker is ready. It ends with Close or with this process.
func StartKafka(ctx context.Context, o KafkaOptions) (*KafkaCluster, error) {
	store, err := newStore(io.Discard)
	if err != nil {
		return nil, err
	}
	prog, err := store.kafkaProgram(ctx)
	if err != nil {
		return nil, err
	}
	k := newCluster(prog, o)
	if err := k.launch(ctx); err != nil {
		return nil, errors.Join(err, k.Close())
	}
	return k, nil
}

func newCluster(prog *kafkaProgram, o KafkaOptions) *KafkaCluster {
	if o.JVM == nil {
		o.JVM = defaultJVM()
	}
	return &KafkaCluster{prog: prog, options: o, id: clusterID(uuid.New())}
}

// defaultJVM turns off the optimizing compiler, which costs more than it saves in a broker's short life.
func defaultJVM() []string {
	return []string{"-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"}
}

func (k *KafkaCluster) launch(ctx context.Context) error {
	for n := range max(1, k.options.Brokers) {
		if err := k.add(ctx, n+1); err != nil {
			return err
		}
	}
	var starts errgroup.Group
	for _, b := range k.brokers {
		starts.Go(func() error { return b.format(ctx) })
	}
	if err := starts.Wait(); err != nil {
		return err
	}
	return k.Start(ctx)
}

// add creates a broker's directory and reserves its ports.
func (k *KafkaCluster) add(ctx context.Context, id int) error {
	inst, err := newInstance(ctx, "kafka", "KILL")
	if err != nil {
		return err
	}
	b := &Broker{ID: id, cluster: k, served: served{inst}, ports: map[Listener]*port{}}
	k.brokers = append(k.brokers, b)
	for _, listener := range k.listeners() {
		if b.ports[listener], err = inst.reserve(ctx); err != nil {
			return err
		}
	}
	if k.options.Secure && k.Certs == nil {
		if k.Certs, err = newAuthority(inst); err != nil {
			return err
		}
	}
	if k.options.Proxied {
		b.proxy, err = startProxy(ctx, b.ports[ListenerProxied].addr())
	}
	return err
}

func (k *KafkaCluster) listeners() []Listener {
	list := []Listener{ListenerPlain, ListenerController}
	if k.options.Secure {
		list = append(list, ListenerTLS, ListenerSASL, ListenerSASLTLS)
	}
	if k.options.Proxied {
		list = append(list, ListenerProxied)
	}
	return list
}

// format writes server.properties and formats the log directory of a new broker.
func (b *Broker) format(ctx context.Context) error {
	settings, err := b.settings()
	if err != nil {
		return err
	}
	maps.Copy(settings, b.cluster.options.Settings)
	if _, err := b.inst.write("server.properties", renderProperties(settings)); err != nil {
		return err
	}
	args := []string{"kafka.tools.StorageTool", "format", "-t", b.cluster.id, "-c", b.properties()}
	if b.cluster.options.Secure {
		for _, mechanism := range []string{"SCRAM-SHA-256", "SCRAM-SHA-512"} {
			args = append(args, "-S", fmt.Sprintf("%s=[name=%s,password=%s]", mechanism, KafkaUser, KafkaPassword))
		}
	}
	return b.inst.run(ctx, b.cluster.prog.command(defaultJVM(), args...))
}

func (b *Broker) properties() string { return b.inst.path("server.properties") }

// Start starts the brokers that are down and waits until all are ready and every replica is in sync.
func (k *KafkaCluster) Start(ctx context.Context) error {
	for _, b := range k.brokers {
		if b.PID() != 0 {
			continue
		}
		if err := b.Launch(ctx); err != nil {
			return err
		}
	}
	return k.AwaitHealthy(ctx)
}

// Launch starts a broker without waiting until it is ready, which needs a majority of the cluster.
func (b *Broker) Launch(ctx context.Context) error {
	return b.inst.start(ctx, b.cluster.prog.command(b.cluster.options.JVM, "kafka.Kafka", b.properties()))
}

// Start starts the broker on its data and ports and waits until it is ready.
func (b *Broker) Start(ctx context.Context) error {
	if err := b.Launch(ctx); err != nil {
		return err
	}
	return b.await(ctx)
}

func (b *Broker) await(ctx context.Context) error {
	if err := b.inst.awaitReady(ctx, b.ping); err != nil {
		return fmt.Errorf("start Kafka broker %d: %w", b.ID, err)
	}
	return nil
}

// Stop shuts the broker down cleanly (leaders move first). If ctx ends first, it kills the broker.
func (b *Broker) Stop(ctx context.Context) error { return b.inst.stop(ctx, syscall.SIGTERM) }

// Addr returns the advertised host:port of a listener, which for ListenerProxied is the proxy's; "" if the cluster has no
// such listener.
func (b *Broker) Addr(l Listener) string {
	if l == ListenerProxied && b.proxy != nil {
		return b.proxy.Addr()
	}
	if p, ok := b.ports[l]; ok {
		return p.addr()
	}
	return ""
}

// Proxy returns the proxy of ListenerProxied.
func (b *Broker) Proxy() *ProxyServer { return b.proxy }

// Brokers returns the brokers; the first has ID 1.
func (k *KafkaCluster) Brokers() []*Broker { return k.brokers }

// Addrs returns the bootstrap addresses of a listener.
func (k *KafkaCluster) Addrs(l Listener) []string {
	addrs := make([]string, 0, len(k.brokers))
	for _, b := range k.brokers {
		addrs = append(addrs, b.Addr(l))
	}
	return addrs
}

// Bootstrap returns the addresses of the plaintext listeners.
func (k *KafkaCluster) Bootstrap() []string { return k.Addrs(ListenerPlain) }

// LogTail returns the last lines of every broker's log.
func (k *KafkaCluster) LogTail(lines int) string {
	var text strings.Builder
	for _, b := range k.brokers {
		text.WriteString("broker " + strconv.Itoa(b.ID) + ":\n" + b.LogTail(lines) + "\n")
	}
	return text.String()
}

// Close kills the brokers and removes their data.
func (k *KafkaCluster) Close() error {
	var errs []error
	for _, b := range k.brokers {
		errs = append(errs, b.close())
	}
	return errors.Join(errs...)
}

func (b *Broker) close() error {
	err := b.inst.close()
	if b.proxy != nil {
		return errors.Join(err, b.proxy.Close())
	}
	return err
}
