package main

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"text/tabwriter"
	"time"

	"hubbub/cmd/internal/program"
	"hubbub/peers/tg"

	"github.com/spf13/cobra"
)

func newPair() *cobra.Command {
	var valid time.Duration
	var listed bool
	var revoked string
	cmd := &cobra.Command{
		Use:   "pair",
		Short: "Admit a person or a group to the Telegram bot by a one-time code",
		Long: "Prints a code that works once. Whoever sends /pair CODE to the bot is admitted: the person in a direct chat,\n" +
			"the group with its members in a group. Works on the bridge's data folder (--data); a running bridge takes the\n" +
			"code at once.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case listed && revoked != "":
				return program.Usage("--list and --revoke are two different things; give one")
			case listed:
				return listAdmissions(cmd)
			case revoked != "":
				return revokeAdmission(cmd, revoked)
			case valid <= 0:
				return program.Usage("--valid must be longer than nothing")
			}
			return makeCode(cmd, valid)
		},
	}
	cmd.Flags().DurationVar(&valid, "valid", time.Hour, "how long the code works")
	cmd.Flags().BoolVar(&listed, "list", false, "list who was admitted by a code, instead of making one")
	cmd.Flags().StringVar(&revoked, "revoke", "", "take back the admission of this user or chat id, instead of making a code")
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
	code, err := tg.NewCode(cmd.Context(), db, valid)
	if err != nil {
		return err
	}
	if asJSON(cmd) {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]string{"code": code})
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\nSend this to the bot within %s, in the chat that shall be admitted: /pair %s\n", code, valid, code)
	if err == nil && errors.Is(statErr, fs.ErrNotExist) {
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "No bridge has used the folder %s (--data) yet; only one that does takes the code.\n", env.Data)
	}
	return err
}

func listAdmissions(cmd *cobra.Command) error {
	db, err := bridgeDatabase(cmd)
	if err != nil {
		return err
	}
	defer db.Close()
	admitted, err := tg.Admissions(cmd.Context(), db)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if asJSON(cmd) {
		encoder := json.NewEncoder(out)
		for _, a := range admitted {
			if err := encoder.Encode(a); err != nil {
				return err
			}
		}
		return nil
	}
	if len(admitted) == 0 {
		_, err := fmt.Fprintln(out, "nobody was admitted by a code")
		return err
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "KIND\tID\tBY USER\tBOT\tSINCE")
	for _, a := range admitted {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%s\n", a.Kind, a.ID, a.By, a.Bot, a.At.Format(time.DateTime))
	}
	return t.Flush()
}

func revokeAdmission(cmd *cobra.Command, who string) error {
	id, err := strconv.ParseInt(who, 10, 64)
	if err != nil {
		return program.Usage("--revoke takes the number of a user or a chat; see hubbub pair --list")
	}
	db, err := bridgeDatabase(cmd)
	if err != nil {
		return err
	}
	defer db.Close()
	found, err := tg.Revoke(cmd.Context(), db, id)
	if err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("nobody with the id %d was admitted by a code; who is allowed by the bridge's own flags is not listed here", id)
	}
	if asJSON(cmd) {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]int64{"revoked": id})
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d is no longer admitted\n", id)
	return err
}

// bridgeDatabase opens the database of a bridge that has run in the data folder.
func bridgeDatabase(cmd *cobra.Command) (*sql.DB, error) {
	env := program.From(cmd)
	path := env.DataFile(tg.Database)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("no Telegram bridge has used the folder %s; name its folder with --data", env.Data)
	}
	return tg.Open(path)
}
