package testenv

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
)

const kafkaArchive = "kafka.jsa"

// archiveClasses creates a class data sharing archive, which halves the CPU time of a broker's start. An archive is valid
// for one Java version and one path of the jars; the JVM ignores one that does not match. It is written by a first run of
// a broker.
func (s *store) archiveClasses(ctx context.Context, k *kafkaProgram) error {
	version, err := run(ctx, "", k.java, "--version")
	if err != nil {
		return err
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(k.java + version + k.libs))
	name := fmt.Sprintf("kafka-%s-classes-%08x", kafkaVersion, hash.Sum32())
	dir, err := s.entry(ctx, name, func(dir string) error {
		s.say("starting Kafka once, so that later starts are quick")
		return k.train(ctx, dir)
	})
	if err != nil {
		return err
	}
	k.archive = filepath.Join(dir, kafkaArchive)
	return nil
}

// train runs a broker once and keeps the archive that its JVM writes at exit.
func (k *kafkaProgram) train(ctx context.Context, dir string) (err error) {
	cluster := newCluster(k, KafkaOptions{})
	defer func() { err = errors.Join(err, cluster.Close()) }()
	if err := cluster.add(ctx, 1); err != nil {
		return err
	}
	b := cluster.brokers[0]
	archive := b.inst.path(kafkaArchive)
	cluster.options.JVM = append(defaultJVM(), "-XX:ArchiveClassesAtExit="+archive)
	if err := b.format(ctx); err != nil {
		return err
	}
	if err := b.Start(ctx); err != nil {
		return err
	}
	if err := cluster.CreateTopic(ctx, "training", 1, nil); err != nil {
		return err
	}
	if err := b.Stop(ctx); err != nil {
		return err
	}
	classes, err := os.ReadFile(archive)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, kafkaArchive), classes, 0o644)
}
