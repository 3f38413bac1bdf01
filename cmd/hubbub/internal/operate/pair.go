package operate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"time"

	"hubbub/cmd/hubbub/internal/output"
	"hubbub/cmd/internal/program"
	"hubbub/peers/bridge"
	"hubbub/peers/store"
	"hubbub/peers/tg"

	"github.com/spf13/cobra"
)

// NewPair returns the command `hubbub pair`.
func NewPair() *cobra.Command {
	var valid time.Duration
	var listed bool
	var revoked string
	cmd := &cobra.Command{
		Use:   "pair",
		Short: "Admit a person or group to the Telegram bot with a one-time code",
		Long: "Print a code that works once. Send /pair CODE to the bot to be admitted: in a direct chat the\n" +
			"code admits the person, in a group it admits the group and its members. The command works on the\n" +
			"bridge's data folder (--data); a running bridge accepts the code at once.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case listed && revoked != "":
				return program.Usage("--list and --revoke exclude each other")
			case listed:
				return withBridge(cmd, listAdmissions)
			case revoked != "":
				id, err := strconv.ParseInt(revoked, 10, 64)
				if err != nil {
					return program.Usage("--revoke requires the ID of a user or a chat; see hubbub pair --list")
				}
				return withBridge(cmd, func(cmd *cobra.Command,
					db *store.DB) error {
					return revokeAdmission(cmd, db, id)
				})
			case valid <= 0:
				return program.Usage("--valid must be above 0")
			}
			return makeCode(cmd, valid)
		},
	}
	cmd.Flags().DurationVar(&valid, "valid", time.Hour, "how long the code works")
	cmd.Flags().BoolVar(&listed, "list", false, "list the admitted people and groups instead of making a code")
	cmd.Flags().StringVar(&revoked, "revoke", "",
		"revoke the admission of this user or chat ID instead of making a code")
	return cmd
}

func makeCode(cmd *cobra.Command, valid time.Duration) error {
	env := program.From(cmd)
	if _, err := env.MakeData(); err != nil {
		return err
	}
	_, statErr := os.Stat(env.DataFile(tg.Database))
	db, err := tg.Open(env.DataFile(tg.Database))
	if err != nil {
		return err
	}
	defer db.Close()
	code, err := bridge.NewCode(cmd.Context(), db, valid)
	if err != nil {
		return err
	}
	unused := ""
	if errors.Is(statErr, fs.ErrNotExist) {
		unused = fmt.Sprintf(
			"\nNo bridge has used the folder %s (--data) yet. Only a bridge that uses it accepts the code.", env.Data,
		)
	}
	return output.Line(cmd, map[string]string{"code": code},
		"%s\nWithin %s, send this to the bot in the chat to admit: /pair %s%s", code, valid, code, unused)
}

func listAdmissions(cmd *cobra.Command, db *store.DB) error {
	admitted, err := bridge.Admissions(cmd.Context(), db)
	if err != nil {
		return err
	}
	head := []any{"KIND", "ID", "BY USER", "BOT", "SINCE"}
	return output.Table(cmd, admitted, "nobody was admitted with a code", head, func(a bridge.Admission) []any {
		return []any{a.Kind, a.ID, a.By, a.Bot, a.At.Format(time.DateTime)}
	})
}

func revokeAdmission(cmd *cobra.Command, db *store.DB, id int64) error {
	found, err := bridge.Revoke(cmd.Context(), db, strconv.FormatInt(id, 10))
	if err != nil {
		return err
	}
	if !found {
		return fmt.Errorf(
			"nobody with the ID %d was admitted with a code; people whom the bridge's flags allow are not listed here",
			id,
		)
	}
	return output.Line(cmd, map[string]int64{"revoked": id}, "%d is no longer admitted", id)
}

// withBridge calls do with the database of a bridge that has run in the data folder.
func withBridge(cmd *cobra.Command, do func(cmd *cobra.Command, db *store.DB) error) error {
	env := program.From(cmd)
	path := env.DataFile(tg.Database)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("no Telegram bridge has used the folder %s; name its folder with --data", env.Data)
	}
	db, err := tg.Open(path)
	if err != nil {
		return err
	}
	defer db.Close()
	return do(cmd, db)
}
