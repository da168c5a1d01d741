package config

import (
	"errors"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
)

// validate checks what the schema cannot, and fills in the defaults that depend on other settings. An invalid value is zero
// here, and document.report ignores further problems with it.
func (d *document) validate(c *Config) {
	c.Errors.fill()
	d.source(&c.Source)
	if len(c.Tables) == 0 {
		c.Tables = []Table{{Name: "outbox"}}
		if name, err := c.Source.table("outbox"); err == nil && !strings.ContainsAny(name.Schema, ".`") {
			c.Tables[0].Name = name.String()
		}
	}
	d.tables(c.Tables, &c.Source)
	d.routes(c)
	d.ceSource(c.CESource)
	d.kafka(&c.Kafka)
	d.delivery(c)
	d.deadLetter(c)
	for i, r := range c.Routes {
		if slices.Contains(c.OwnTopics(), c.EventTopic(r.Topic)) {
			d.report(item("routes", i)+".topic", "name another topic", "is a topic of the relay's own, which holds no events")
		}
	}
	d.checkpoint(c)
	d.events(c.Errors.Skip)
	d.retention(c)
	d.writeBack(c)
	if c.Retry.Initial > c.Retry.Max {
		d.report("retry.initial", "make it shorter, or retry.max longer", "is longer than retry.max")
	}
	if c.HTTP.Listen != "" {
		d.address(c.HTTP.Listen, "http.listen", true)
	}
	if c.HTTP.HealthListen != "" {
		d.address(c.HTTP.HealthListen, "http.health_listen", true)
		if c.HTTP.Listen == "" {
			d.report("http.health_listen", "set http.listen too", "has no effect, because http.listen is empty")
		}
	}
	if c.HTTP.Actions && (c.HTTP.Listen == "" || c.HTTP.WebConfig == "") {
		d.report("http.actions", "set http.listen, and http.web_config to a file with basic_auth_users or verified client certificates",
			"would let anybody who reaches the endpoint drop dead letters")
	}
	d.peers(&c.HTTP)
	if c.HTTP.WebConfig != "" {
		if _, err := readSecret(c.HTTP.WebConfig); err != nil {
			d.report("http.web_config", "correct the path", "names a file that cannot be read (%v)", err)
		}
	}
}

func (d *document) peers(h *HTTP) {
	for i, peer := range h.Peers {
		u, err := url.Parse(strings.TrimPrefix(peer, "dns+"))
		switch {
		case err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "":
			d.report(item("http.peers", i), "write http://host:9464, or dns+http://name:9464", "is not the address of a relay")
		case strings.HasPrefix(peer, "dns+https"):
			d.report(item("http.peers", i), "list the relays by the names of their certificates", "would ask addresses, which no certificate is for")
		case u.User != nil:
			d.report(item("http.peers", i), "take them out, and set http.peers_user and http.peers_password", "has a user or a password in it")
		}
	}
	switch hasPassword := !h.PeersPassword.IsZero(); {
	case h.PeersUser != "" && !hasPassword:
		d.report("http.peers_password", "set it, or remove http.peers_user", "is missing")
	case h.PeersUser == "" && hasPassword:
		d.report("http.peers_user", "set it, or remove http.peers_password", "is missing")
	case h.PeersUser != "" && len(h.Peers) == 0:
		d.report("http.peers_user", "set http.peers, or remove it", "has no effect without http.peers")
	case h.PeersUser != "" && h.WebConfig == "":
		d.report("http.peers_user", "set http.web_config, so that callers authenticate here too", "would show anybody what peers show with a password only")
	}
	switch {
	case h.Operators != nil && len(h.Operators) == 0:
		d.report("http.operators", "name users, or remove it", "is empty, which would not keep anybody from acting")
	case len(h.Operators) > 0 && !h.Actions:
		d.report("http.operators", "set http.actions: true, or remove it", "has no effect without http.actions")
	}
}

func (d *document) tables(tables []Table, source *Source) {
	first := map[string]int{}
	for i := range tables {
		t := &tables[i]
		d.parts(t.Columns.Parts(), item("tables", i)+".columns")
		d.shape(t, item("tables", i))
		d.expressions(t.Only, item("tables", i)+".only")
		d.timeZone(&tables[i], item("tables", i))
		d.orderBy(&tables[i], item("tables", i))
		path := item("tables", i) + ".name"
		if t.Name == "" {
			continue
		}
		name, err := source.table(t.Name)
		if err != nil {
			d.fault(path, errors.Unwrap(err))
			continue
		}
		if source.MySQL != nil && strings.Contains(name.Schema, ".") {
			d.report(path, "move the table to another database", "is in a database whose name has a dot, which the relay does not take")
		}
		if j, twice := first[name.String()]; twice {
			d.report(path, "keep one", "is the same table as %s", item("tables", j))
			continue
		}
		first[name.String()] = i
	}
}

// orderBy checks by which column a table's rows are read.
func (d *document) orderBy(t *Table, table string) {
	if t.OrderBy != "" && t.Columns == nil && !d.bad(table+".columns") {
		d.report(table+".order_by", "remove it, or map the table's columns", "is set for a table without columns: the native table's rows are read by created_at")
	}
}

// timeZone checks a table's time zone.
func (d *document) timeZone(t *Table, table string) {
	if t.TimeZone == "" {
		return
	}
	path := table + ".time_zone"
	if _, err := cdc.LoadZone(t.TimeZone); err != nil {
		d.wrong(path, "the name of a time zone, such as Europe/Berlin or UTC", d.text(path))
		return
	}
	if t.Columns == nil && !d.bad(table+".columns") {
		d.report(path, "remove it, or map the table's columns", "is set for a table without columns: the native table's times are in UTC")
	}
}

// parts checks what the parts of an event are made of.
func (d *document) parts(parts map[string]outbox.Part, path string) {
	for name, part := range parts {
		role, _ := outbox.ParseRole(name)
		if err := part.Check(role); err != nil && !d.badBelow(dotted(path, name)) {
			d.fault(dotted(path, name), err)
		}
	}
}

// shape checks what a table's records are made of.
func (d *document) shape(t *Table, path string) {
	layout, err := outbox.Mapped(t.Columns.Parts())
	if err != nil || d.badBelow(path) {
		return // which was reported
	}
	shape := t.Shape()
	if setting, err := shape.Check(layout); err != nil {
		d.fault(dotted(path, setting), err)
	}
}

// ceSource checks that the CloudEvents source is a URI reference.
func (d *document) ceSource(source string) {
	if _, err := url.Parse(source); err != nil || strings.ContainsAny(source, " \t\r\n") {
		d.wrong("ce_source", "a URI reference such as /orders", d.text("ce_source"))
	}
}

func (d *document) events(ids []string) {
	for i, id := range ids {
		if strings.TrimSpace(id) == "" {
			d.report(item("errors.skip", i), "give the event's id, or remove the line", "is empty")
		}
	}
}

// address checks host:port. An address to listen on may have no host.
func (d *document) address(address, path string, listen bool) {
	host, port, err := net.SplitHostPort(address)
	number, portErr := strconv.ParseUint(port, 10, 16)
	switch {
	case strings.Contains(address, "@"): // of a URL, with a password before it
		d.report(path, "write host:port, and user and password as settings of their own", "has an @ in it")
	case listen && (err != nil || portErr != nil):
		d.wrong(path, "host:port or :port, such as :9464", d.text(path))
	case !listen && (err != nil || portErr != nil || host == "" || number == 0):
		d.wrong(path, "host:port", d.text(path))
	}
}

// addresses checks a list of host:port.
func (d *document) addresses(addresses []string, path string) {
	for i, a := range addresses {
		d.address(a, item(path, i), false)
	}
}

func item(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }
