package datafolder

import (
	"os"
	"path/filepath"
	"syscall"
)

// GiveToOwner gives a file or folder that root has made to the owner of the folder that
// it is in. For other users it does nothing.
func GiveToOwner(f *os.File) error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := os.Stat(filepath.Dir(f.Name()))
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || owner.Uid == 0 {
		return nil
	}
	return f.Chown(int(owner.Uid), int(owner.Gid))
}
