package operate

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"hubbub/cmd/hubbub/internal/output"
	"hubbub/cmd/internal/program"
	"hubbub/peers/bridge"
	"hubbub/peers/mx"
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
		Short: "Admit a person or group to a bot with a one-time code",
		Long: "Print a code that works once. Send /pair CODE to the bot to be admitted, in Matrix !pair CODE: in\n" +
			"a direct chat the code admits the person, in a group it admits the group and its members. While a\n" +
			"code is open, the Matrix bot accepts invitations from everybody. The command works on the\n" +
			"bridge's data folder (--data); a running bridge accepts the code at once.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case listed && revoked != "":
				return program.Usage("--list and --revoke exclude each other")
			case listed:
				return withBridge(cmd, listAdmissions)
			case revoked != "":
				if !isAccount(revoked) {
					return program.Usage("--revoke requires the ID of a user or a chat; see hubbub pair --list")
				}
				return withBridge(cmd, func(cmd *cobra.Command, databases []*store.DB) error {
					return revokeAdmission(cmd, databases, bridge.Account(revoked))
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

// isAccount reports whether a text can be the ID of a user or a chat: a number of Telegram, or an
// ID of Matrix.
func isAccount(id string) bool {
	_, err := strconv.ParseInt(id, 10, 64)
	return err == nil || strings.HasPrefix(id, "@") || strings.HasPrefix(id, "!")
}

// bridgeDatabases are the databases of bridges in a data folder, and how to open them.
var bridgeDatabases = []struct {
	name string
	open func(string) (*store.DB, error)
}{{tg.Database, tg.Open}, {mx.Database, mx.Open}}

func makeCode(cmd *cobra.Command, valid time.Duration) error {
	env := program.From(cmd)
	if _, err := env.MakeData(); err != nil {
		return err
	}
	databases, err := openBridges(env)
	unused := ""
	if err == nil && len(databases) == 0 {
		unused = fmt.Sprintf(
			"\nNo bridge has used the folder %s (--data) yet. Only a bridge that uses it accepts the code.", env.Data,
		)
		var db *store.DB
		if db, err = tg.Open(env.DataFile(tg.Database)); err == nil {
			databases = append(databases, db)
		}
	}
	defer closeAll(databases)
	if err != nil {
		return err
	}
	code, err := bridge.NewCode(cmd.Context(), valid, databases...)
	if err != nil {
		return err
	}
	inMatrix := ""
	if program.FileExists(env.DataFile(mx.Database)) {
		inMatrix = " (in Matrix: !pair " + code + ")"
	}
	return output.Line(cmd, map[string]string{"code": code},
		"%s\nWithin %s, send this to the bot in the chat to admit: /pair %s%s%s", code, valid, code, inMatrix, unused)
}

// openBridges opens the databases of the bridges that have used the data folder.
func openBridges(env *program.Env) (list []*store.DB, err error) {
	for _, b := range bridgeDatabases {
		path := env.DataFile(b.name)
		if !program.FileExists(path) {
			continue
		}
		db, err := b.open(path)
		if err != nil {
			return list, err
		}
		list = append(list, db)
	}
	return list, nil
}

func closeAll(list []*store.DB) {
	for _, db := range list {
		_ = db.Close() // what was written has been committed
	}
}

func listAdmissions(cmd *cobra.Command, databases []*store.DB) error {
	var admitted []bridge.Admission
	for _, db := range databases {
		list, err := bridge.Admissions(cmd.Context(), db)
		if err != nil {
			return err
		}
		admitted = append(admitted, list...)
	}
	head := []any{"KIND", "ID", "BY USER", "BOT", "SINCE"}
	return output.Table(cmd, admitted, "nobody was admitted with a code", head, func(a bridge.Admission) []any {
		return []any{a.Kind, a.ID, a.By, a.Bot, a.At.Local().Format("2006-01-02 15:04:05 MST")}
	})
}

func revokeAdmission(cmd *cobra.Command, databases []*store.DB, id bridge.Account) error {
	found := false
	for _, db := range databases {
		here, err := bridge.Revoke(cmd.Context(), db, string(id))
		if err != nil {
			return err
		}
		found = found || here
	}
	if !found {
		return fmt.Errorf(
			"nobody with the ID %s was admitted with a code; people whom the bridge's flags allow are not listed here",
			id,
		)
	}
	return output.Line(cmd, map[string]bridge.Account{"revoked": id}, "%s is no longer admitted", id)
}

// withBridge calls do with the databases of the bridges that have run in the data folder.
func withBridge(cmd *cobra.Command, do func(cmd *cobra.Command, databases []*store.DB) error) error {
	env := program.From(cmd)
	databases, err := openBridges(env)
	defer closeAll(databases)
	switch {
	case err != nil:
		return err
	case len(databases) == 0:
		return fmt.Errorf("no bridge has used the folder %s; name its folder with --data", env.Data)
	}
	return do(cmd, databases)
}
