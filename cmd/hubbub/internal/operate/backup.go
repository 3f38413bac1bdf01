package operate

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"hubbub/activitylog/read"
	"hubbub/cmd/hubbub/internal/logs"
	"hubbub/cmd/hubbub/internal/output"
	"hubbub/cmd/internal/program"
	"hubbub/peers/store"
	"hubbub/protocol/datafolder"

	"github.com/spf13/cobra"
)

// NewBackup returns the command `hubbub backup`.
func NewBackup() *cobra.Command {
	return &cobra.Command{
		Use:   "backup FOLDER",
		Short: "Copy a data folder while its programs run",
		Long: "Copy the data folder (--data) to a new folder. Each database is copied as of one moment and\n" +
			"checked. The programs may run. Logs of agents, and files that can be made again, are left out.\n" +
			"The copy contains secrets and private messages. It belongs to the owner of the data folder, even\n" +
			"if root makes it, and nobody else can read it.",
		Annotations: map[string]string{program.NewFolder: ""},
		Example:     "  hubbub backup /backup/hubbub-2026-01-31 --data /var/lib/hubbub",
		RunE:        func(cmd *cobra.Command, args []string) error { return backup(cmd, args[0]) },
	}
}

// skippedSuffixes are the suffixes of files that a backup does not need.
var skippedSuffixes = []string{"-wal", "-shm", "-journal", ".lock", ".log", ".log.1", ".partial", ".sock"}

func backup(cmd *cobra.Command, to string) error {
	from, err := filepath.EvalSymlinks(program.From(cmd).Data) // WalkDir does not follow a symbolic link
	if err != nil {
		return program.Usage("data folder %s does not exist; name another with --data", program.From(cmd).Data)
	}
	to, err = filepath.Abs(to)
	if err != nil {
		return err
	}
	if rel, err := filepath.Rel(from, to); err == nil && !strings.HasPrefix(rel, "..") {
		return program.Usage("%s is inside the data folder; name a folder outside it", to)
	}
	if err := datafolder.Mkdir(to); err != nil {
		switch {
		case errors.Is(err, fs.ErrExist):
			if in, err := os.ReadDir(to); err != nil || len(in) > 0 { // root may have made an empty folder
				return program.Usage("%s already exists; name a new folder", to)
			}
			return backupInto(cmd, from, to)
		// not wrapped: the usual advice, to run as the folder's owner, would be wrong
		case errors.Is(err, fs.ErrPermission):
			return fmt.Errorf(
				"%v: the owner of the data folder makes the copy and may not write there: create a folder for copies "+
					"with: install -d -m 0700 -o %d FOLDER",
				err,
				os.Geteuid(),
			)
		}
		return err
	}
	return backupInto(cmd, from, to)
}

// backupInto copies a data folder into an empty folder.
func backupInto(cmd *cobra.Command, from, to string) error {
	files, failed := 0, []error{}
	progress := program.From(cmd).Progress("copying to "+to, "files", nil)
	copied := func(err error) error {
		switch {
		case err == nil:
			files++
			progress.Add(1)
		case cmd.Context().Err() != nil:
			return err
		default: // copy the other files even if one is damaged
			failed = append(failed, err)
		}
		return nil
	}
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			failed = append(failed, err)
			return nil
		}
		rel, err := filepath.Rel(from, path)
		if err != nil || rel == "." {
			return err
		}
		target := filepath.Join(to, rel)
		switch {
		case d.IsDir():
			return datafolder.Mkdir(target)
		case !d.Type().IsRegular() || slices.ContainsFunc(
			skippedSuffixes, func(end string) bool { return strings.HasSuffix(rel, end) },
		):
			return nil
		case read.IsSealed(logs.File, rel): // copied below, after the live file
			return nil
		case filepath.Ext(path) == ".db":
			return copied(store.Copy(cmd.Context(), path, target))
		}
		return copied(copyFile(path, target))
	})
	sealed, listErr := read.Sealed(filepath.Join(from, logs.File), filepath.Join(to, logs.File))
	failed = append(failed, listErr)
	for _, path := range sealed {
		if err == nil {
			err = copied(copyFile(path, filepath.Join(to, filepath.Base(path))))
		}
	}
	progress.End()
	if err = errors.Join(append(failed, err)...); err != nil {
		return fmt.Errorf("the backup in %s is incomplete, with %d files: %w", to, files, err)
	}
	return output.Line(cmd, map[string]any{"folder": to, "files": files}, "%d files copied to %s", files, to)
}

// copyFile copies a file that its writer replaces instead of changing it. It does nothing if the
// file has been removed.
func copyFile(path, to string) (err error) {
	in, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // only read
	if err := datafolder.Create(to); err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Sync(), out.Close())
}
