package testenv

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
)

const (
	kafkaVersion  = "4.3.1"
	kafkaMinJava  = 17
	javaIsMissing = "Kafka needs Java 17 or newer, and Maven to be fetched: install them (on Debian " +
		"`sudo apt-get install default-jre-headless maven`)"
)

// kafkaPOM names the broker, its storage tool and a logger to standard error.
const kafkaPOM = `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>cdc-relay</groupId><artifactId>kafka</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>` + kafkaVersion + `</version></dependency>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>` + kafkaVersion + `</version></dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version></dependency>
  </dependencies>
</project>
`

// kafkaProgram is the Java virtual machine and Kafka's jars.
type kafkaProgram struct {
	java    string
	libs    string
	archive string // of classes; may be empty
}

func (s *store) kafkaProgram(ctx context.Context) (*kafkaProgram, error) {
	java, err := findJava(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := s.entry(ctx, "kafka-"+kafkaVersion, func(dir string) error {
		s.say("fetching Kafka %s with Maven", kafkaVersion)
		return fetchKafka(ctx, dir)
	})
	if err != nil {
		return nil, err
	}
	prog := &kafkaProgram{java: java, libs: filepath.Join(dir, "libs")}
	if err := s.archiveClasses(ctx, prog); err != nil {
		return nil, err
	}
	return prog, nil
}

func fetchKafka(ctx context.Context, dir string) error {
	pom := filepath.Join(dir, "pom.xml")
	if err := os.WriteFile(pom, []byte(kafkaPOM), 0o644); err != nil {
		return err
	}
	return maven(ctx, dir, "-f", pom, "dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory="+filepath.Join(dir, "libs"))
}

// findJava looks at JAVA_HOME, then PATH, and installs a runtime if it may.
func findJava(ctx context.Context) (string, error) {
	candidates := []string{"java"}
	if home := os.Getenv("JAVA_HOME"); home != "" {
		candidates = append([]string{filepath.Join(home, "bin", "java")}, candidates...)
	}
	for _, candidate := range candidates {
		if path, err := exec.LookPath(candidate); err == nil && javaMajor(ctx, path) >= kafkaMinJava {
			return path, nil
		}
	}
	if err := installDebian(ctx, "default-jre-headless"); err != nil {
		return "", missing(javaIsMissing, err)
	}
	path, err := exec.LookPath("java")
	if err == nil && javaMajor(ctx, path) >= kafkaMinJava {
		return path, nil
	}
	return "", errors.New(javaIsMissing + "; Debian's default is older")
}

func javaMajor(ctx context.Context, java string) int {
	out, err := exec.CommandContext(ctx, java, "-version").CombinedOutput()
	if err != nil {
		return 0
	}
	match := regexp.MustCompile(`version "(\d+)`).FindSubmatch(out)
	if match == nil {
		return 0
	}
	major, err := strconv.Atoi(string(match[1]))
	if err != nil {
		return 0
	}
	return major
}

func (k *kafkaProgram) command(jvm []string, args ...string) command {
	options := slices.Clone(jvm)
	if k.archive != "" {
		options = append(options, "-XX:SharedArchiveFile="+k.archive)
	}
	options = append(options,
		"-XX:-UsePerfData", // otherwise each JVM leaves a file in /tmp
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.showDateTime=true",
		"-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
		"-cp", filepath.Join(k.libs, "*"))
	return command{path: k.java, args: append(options, args...)}
}
