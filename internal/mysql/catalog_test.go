package mysql

import (
	"strings"
	"testing"
)

func TestOldestServers(t *testing.T) {
	for name, supported := range map[string]bool{
		"5.7.44-log": false, "8.0.21": false, "8.0.22": true, "8.0.46": true, "8.3.0": true, "8.4.0": true, "9.7.4-2": true,
		"10.6.22-MariaDB-log": false, "10.10.7-MariaDB": false, "10.11.0-MariaDB": true, "10.11.19-MariaDB-0+deb12u1-log": true, "11.8.2-MariaDB": true,
	} {
		err := Variables{"version": name}.Problem(&Options{})
		if old := err != nil && strings.Contains(err.Error(), "too old"); old == supported {
			t.Errorf("%s: supported %t, got %v", name, supported, err)
		}
	}
}

func TestReadOnlyServers(t *testing.T) {
	for value, want := range map[string]bool{"": false, "OFF": false, "0": false, "ON": true, "1": true, "NO_LOCK": true, "NO_LOCK_NO_ADMIN": true} {
		if got := readsOnly(value); got != want {
			t.Errorf("%q: %t", value, got)
		}
	}
}
