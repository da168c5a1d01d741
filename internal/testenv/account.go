package testenv

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// account is the user that servers run as. PostgreSQL refuses to run as root, so root starts them as postgres, or as
// nobody if there is no user postgres. A nil account is the current user.
type account struct{ uid, gid int }

func serverAccount() (*account, error) {
	if os.Getuid() != 0 {
		return nil, nil //nolint:nilnil // No other account is needed.
	}
	for _, name := range []string{"postgres", "nobody"} {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errUID := strconv.Atoi(found.Uid)
		gid, errGID := strconv.Atoi(found.Gid)
		if err := errors.Join(errUID, errGID); err != nil {
			return nil, fmt.Errorf("read account %s: %w", name, err)
		}
		return &account{uid: uid, gid: gid}, nil
	}
	return nil, errors.New("PostgreSQL does not run as root and there is neither a user postgres nor nobody: create one, or run as a plain user")
}

func (a *account) credential() *syscall.Credential {
	if a == nil {
		return nil
	}
	return &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
}

func (a *account) own(path string) error {
	if a == nil {
		return nil
	}
	return os.Chown(path, a.uid, a.gid)
}
