package testenv

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// configure writes my.cnf and the certificates.
func (m *MySQLServer) configure(o MySQLOptions) error {
	settings := m.defaults(o)
	if o.TLS {
		if err := m.encrypt(settings); err != nil {
			return err
		}
	}
	maps.Copy(settings, o.Settings)
	var text strings.Builder
	text.WriteString("[mysqld]\n")
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&text, "%s = %q\n", key, settings[key])
	}
	_, err := m.inst.write("my.cnf", text.String())
	return err
}

// defaults returns the settings that the relay requires, for a small server.
func (m *MySQLServer) defaults(o MySQLOptions) map[string]string {
	settings := map[string]string{
		"basedir":                        m.prog.base(),
		"datadir":                        m.data(),
		"socket":                         m.inst.path("server.sock"),
		"pid_file":                       m.inst.path("server.pid"),
		"tmpdir":                         m.inst.path(), // a starting server deletes other servers' files in a shared one
		"bind_address":                   "127.0.0.1",
		"port":                           strconv.Itoa(m.port.number),
		"server_id":                      strconv.Itoa(m.port.number), // no other server on this machine has it
		"skip_name_resolve":              "ON",
		"character_set_server":           "utf8mb4",
		"max_connections":                "200",
		"performance_schema":             "OFF",
		"innodb_buffer_pool_size":        "64M",
		"innodb_flush_method":            "nosync", // the doublewrite buffer still protects against torn pages
		"log_bin":                        "binlog",
		"binlog_format":                  "ROW",
		"binlog_row_image":               "FULL",
		"binlog_row_metadata":            "FULL",
		"sync_binlog":                    "1",
		"innodb_flush_log_at_trx_commit": "1",
	}
	if share := m.prog.share(); share != "" {
		settings["lc_messages_dir"] = share
	}
	if m.Flavor == MariaDBFlavor {
		settings["log_slave_updates"] = "ON"
		settings["innodb_log_file_size"] = "48M"
		if !o.TLS {
			settings["ssl"] = "OFF" // MariaDB 11.4 would spend seconds on a self-signed certificate
		}
		return settings
	}
	maps.Copy(settings, map[string]string{
		"gtid_mode": "ON", "enforce_gtid_consistency": "ON", "log_replica_updates": "ON", "mysqlx": "OFF",
		"secure_file_priv": "NULL", "innodb_redo_log_capacity": "48M", "auto_generate_certs": "OFF",
	})
	return settings
}

// encrypt creates the server's certificate.
func (m *MySQLServer) encrypt(settings map[string]string) (err error) {
	if m.Certs, err = newAuthority(m.inst); err != nil {
		return err
	}
	cert, key, err := m.Certs.issue(m.inst)
	if err != nil {
		return err
	}
	maps.Copy(settings, map[string]string{"ssl_ca": m.Certs.CAFile, "ssl_cert": cert, "ssl_key": key})
	return nil
}

func (m *MySQLServer) data() string { return m.inst.path("data") }

// initialise creates the data directory. That takes MySQL two seconds, so the cache keeps an empty one of each version.
// The server's UUID is created at the first start.
func (m *MySQLServer) initialise(ctx context.Context, store *store) error {
	c, err := m.prog.initialisation(m.inst)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("%s-%s-data-%08x", m.Flavor, m.Version, crc32.ChecksumIEEE([]byte(mysqlRoot+strings.Join(mysqlInitialise(), " "))))
	template, err := store.entry(ctx, name, func(dir string) error {
		if err := errors.Join(os.Mkdir(m.data(), 0o700), m.inst.owner.own(m.data())); err != nil {
			return err
		}
		if err := m.inst.run(ctx, c); err != nil {
			return err
		}
		return errors.Join(leaveOut(m.data(), "auto.cnf", "ca*.pem", "client-*.pem", "server-*.pem"), os.CopyFS(dir, os.DirFS(m.data())))
	})
	if err != nil {
		return err
	}
	if _, err := os.Stat(m.data()); err == nil {
		return nil // just created
	}
	if err := os.CopyFS(m.data(), os.DirFS(template)); err != nil {
		return err
	}
	return m.inst.ownTree(m.data())
}

// mysqlRoot lets root connect over TCP: with skip_name_resolve no connection comes from localhost.
const mysqlRoot = "CREATE USER root@'127.0.0.1' IDENTIFIED BY '';\nGRANT ALL ON *.* TO root@'127.0.0.1' WITH GRANT OPTION;\n"

func mysqlInitialise() []string {
	return []string{"--initialize-insecure", "--skip-log-bin", "--performance-schema=OFF", "--innodb-flush-method=nosync", "--innodb-redo-log-capacity=48M"}
}

// initialisation returns the command that fills an instance's data directory.
func (p *mysqlProgram) initialisation(i *instance) (command, error) {
	args := []string{"--no-defaults", "--basedir=" + p.base(), "--datadir=" + i.path("data")}
	if share := p.share(); share != "" {
		args = append(args, "--lc-messages-dir="+share)
	}
	if p.flavor == MySQLFlavor {
		file, err := i.write("root.sql", mysqlRoot)
		return p.command(p.daemon(), slices.Concat(args, mysqlInitialise(), []string{"--init-file=" + file})...), err
	}
	script, err := p.bootstrapScript()
	if err != nil {
		return command{}, err
	}
	file, err := i.write("bootstrap.sql", script)
	args = append(args, "--bootstrap", "--innodb-flush-method=nosync", "--innodb-log-file-size=48M", "--enforce-storage-engine=", "--max-allowed-packet=8M")
	c := p.command(p.daemon(), args...)
	return command{path: "/bin/sh", args: append([]string{"-c", `exec "$@" <"$0"`, file, c.path}, c.args...), env: c.env}, err
}

// bootstrapScript returns what mariadb-install-db sends to the server, without help texts, anonymous users and the test
// database. mariadb-install-db itself needs programs of other packages.
func (p *mysqlProgram) bootstrapScript() (string, error) {
	var script strings.Builder
	script.WriteString("CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket=NULL;\n")
	for _, name := range []string{"mysql_system_tables.sql", "mysql_performance_tables.sql", "mysql_system_tables_data.sql"} {
		part := filepath.Join(p.share(), name)
		for _, newer := range []string{part, filepath.Join(p.share(), "mariadb"+strings.TrimPrefix(name, "mysql"))} { // since MariaDB 11
			if _, err := os.Stat(newer); err == nil {
				part = newer
			}
		}
		text, err := os.ReadFile(part)
		if err != nil {
			return "", err
		}
		script.Write(append(text, '\n'))
	}
	return script.String(), nil
}

func leaveOut(dir string, patterns ...string) error {
	for _, pattern := range patterns {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return err
		}
		for _, file := range found {
			if err := os.Remove(file); err != nil {
				return err
			}
		}
	}
	return nil
}

// ownTree makes the server's user the owner of a directory tree that no other user can read.
func (i *instance) ownTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o600)
		if entry.IsDir() {
			mode = 0o700
		}
		return errors.Join(os.Chmod(path, mode), i.owner.own(path))
	})
}
