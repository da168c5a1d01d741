package testenv

import (
	"context"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
)

const (
	debeziumVersion = "3.6.0.Final"
	debeziumMinJava = 21
	debeziumJava    = "openjdk-25-jre-headless" // of Debian unstable, where no newer Java is installed
)

// DebeziumServer returns a command that runs Debezium Server, which is what the relay is compared with. It reads
// config/application.properties in dir, its working directory.
func DebeziumServer(ctx context.Context, out io.Writer, dir string, jvm ...string) (*exec.Cmd, error) {
	s, err := newStore(out)
	if err != nil {
		return nil, err
	}
	java, err := s.newJava(ctx)
	if err != nil {
		return nil, err
	}
	home, err := s.entry(ctx, "debezium-server-"+debeziumVersion, func(dir string) error {
		s.say("fetching Debezium Server %s with Maven (780 MB)", debeziumVersion)
		return maven(ctx, dir, "dependency:unpack", "-Dartifact=io.debezium:debezium-server-dist:"+debeziumVersion+":tar.gz", "-DoutputDirectory="+dir)
	})
	if err != nil {
		return nil, err
	}
	home = filepath.Join(home, "debezium-server")
	classes := filepath.Join(home, "debezium-server-dist-"+debeziumVersion+"-runner.jar") + ":" + filepath.Join(home, "lib", "*")
	// its run.sh, whose one option the Kafka client needs on newer Java
	c := java.command("java", slices.Concat(jvm, []string{"--add-opens=java.base/java.lang=ALL-UNNAMED", "-XX:-UsePerfData", "-cp", classes, "io.debezium.server.Main"})...)
	cmd := exec.CommandContext(ctx, c.path, c.args...)
	cmd.Env, cmd.Dir = append(cmd.Environ(), c.env...), dir
	return cmd, nil
}

// newJava gets the Java that Debezium needs.
func (s *store) newJava(ctx context.Context) (*program, error) {
	if path, err := findJava(ctx); err == nil && javaMajor(ctx, path) >= debeziumMinJava {
		return &program{bin: filepath.Dir(path)}, nil
	}
	return s.unstableProgram(ctx, debeziumJava, "usr/lib/jvm/java-25-openjdk-*/bin", "java")
}
