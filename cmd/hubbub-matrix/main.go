// Command hubbub-matrix is the bridge between one bot of Matrix and the bus.
package main

import (
	"cmp"
	"context"
	"errors"
	"regexp"

	"hubbub/cmd/internal/program"
	"hubbub/peers/bridge"
	"hubbub/peers/mx"
)

// settings are the values of the flags.
type settings struct {
	mx         mx.Options
	Homeserver string   `flag:"homeserver" usage:"address of the bot's homeserver, such as https://matrix.example.org"`
	Glyphs     []string `flag:"glyph" usage:"emoji that shows and means a signal, as SIGNAL=EMOJI (repeatable)"`
	Zones      []string `flag:"chat-time-zone" usage:"time zone of the people of a room, as ROOM=ZONE (repeatable), such as !abc:example.org=Europe/Berlin"`
	standby    program.Standby
}

func main() {
	s := new(settings)
	program.Main(program.Program{
		Name: "hubbub-matrix",
		Summary: "connects a bot of Matrix to the bus; its access token comes in MATRIX_ACCESS_TOKEN, or its password " +
			"in MATRIX_PASSWORD, or in the files that MATRIX_ACCESS_TOKEN_FILE and MATRIX_PASSWORD_FILE name",
		Settings: []any{s, &s.mx, &s.standby},
		Check:    s.check,
		Run:      s.run,
	})
}

var (
	userID = regexp.MustCompile(`^@[^:\s]+:\S+$`)
	roomID = regexp.MustCompile(`^![^\s]+$`)
)

// check checks the settings, and completes them.
func (s *settings) check(_ context.Context, env *program.Env) (err error) {
	o := &s.mx
	if o.Token, err = env.Secret("MATRIX_ACCESS_TOKEN"); err != nil {
		return err
	}
	if o.Password, err = env.Secret("MATRIX_PASSWORD"); err != nil {
		return err
	}
	switch {
	case o.Token == "" && o.Password == "":
		return program.Usage("no access token: set MATRIX_ACCESS_TOKEN to the access token of the bot, or --user and " +
			"MATRIX_PASSWORD to its name and password; with _FILE at the end, they name files")
	case o.Token == "" && o.User == "":
		return program.Usage("--user is missing: MATRIX_PASSWORD needs the id of the bot, such as @hubbub:example.org")
	case o.User != "" && !userID.MatchString(o.User):
		return program.Usage("--user %q is not the id of a user, such as @hubbub:example.org", o.User)
	case s.Homeserver == "":
		return program.Usage("--homeserver is missing: give the address of the bot's homeserver, such as " +
			"https://matrix.example.org")
	}
	if o.Encryption && !mx.CanEncrypt {
		return program.Usage("--encryption: this program was built without encryption; `make encryption` builds " +
			"hubbub-matrix with it, with the tag goolm")
	}
	for _, user := range o.AllowUsers {
		if !userID.MatchString(user) {
			return program.Usage("--allow-user %q is not the id of a user, such as @will:example.org", user)
		}
	}
	for _, room := range o.AllowRooms {
		if !roomID.MatchString(room) {
			return program.Usage("--allow-room %q is not the id of a room, such as !abc:example.org; an alias such as "+
				"#room:example.org does not count", room)
		}
	}
	if err := program.CheckURLs("homeserver", s.Homeserver, "files-url", o.FilesURL); err != nil {
		return err
	}
	if o.Zones, err = bridge.ParseZones(s.Zones); err != nil {
		return program.Usage("--chat-time-zone: %s", err)
	}
	if o.Glyphs, err = bridge.ParseGlyphs(s.Glyphs); err != nil {
		return program.Usage("--glyph: %s", err)
	}
	if o.FilesListen != bridge.NoFiles {
		if err := env.CheckListen("files-listen", o.FilesListen); err != nil {
			return err
		}
	}
	return s.standby.Check()
}

func (s *settings) run(ctx context.Context, env *program.Env) error {
	release, err := env.AwaitData(ctx)
	if err != nil {
		return err
	}
	defer release()
	db, err := mx.Open(env.DataFile(mx.Database))
	if err != nil {
		return err
	}
	if !s.mx.AllowAll && len(s.mx.AllowUsers)+len(s.mx.AllowRooms) == 0 {
		env.Log.Warn().Msg("nobody is allowed by --allow-user or --allow-room: only senders of a code of `hubbub " +
			"pair` are admitted")
	}
	o := &s.mx
	o.Peer, o.Log, o.Folder = env.PeerOptions(), &env.Log, env.Data
	bot := "mx:" + cmp.Or(o.User, s.Homeserver)
	err = s.standby.RunBridge(ctx, env, bot, mx.ErrToken, func(ctx context.Context, ready func()) error {
		o.OnReady = ready
		b, err := mx.New(s.Homeserver, db, o)
		if err != nil {
			return err
		}
		return b.Run(ctx)
	})
	return errors.Join(err, db.Close())
}
