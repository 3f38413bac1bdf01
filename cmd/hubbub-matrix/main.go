// Command hubbub-matrix is the bridge between one bot of Matrix and the bus.
package main

import (
	"context"
	"errors"
	"net/url"
	"regexp"
	"sync/atomic"

	"hubbub/cmd/internal/program"
	"hubbub/peers/bridge"
	"hubbub/peers/mx"

	"github.com/spf13/pflag"
)

// settings are the values of the flags.
type settings struct {
	mx         mx.Options
	homeserver string
	glyphs     []string
	standby    program.Standby
}

func main() {
	var s settings
	program.Main(program.Program{
		Name: "hubbub-matrix",
		Summary: "connects a bot of Matrix to the bus; its access token comes in MATRIX_ACCESS_TOKEN, or its password " +
			"in MATRIX_PASSWORD, or in the files that MATRIX_ACCESS_TOKEN_FILE and MATRIX_PASSWORD_FILE name",
		Flags: s.add,
		Check: s.check,
		Run:   s.run,
	})
}

func (s *settings) add(fs *pflag.FlagSet) {
	o := &s.mx
	fs.StringVar(&s.homeserver, "homeserver", "", "address of the bot's homeserver, such as https://matrix.example.org")
	fs.StringVar(&o.User, "user", "", "id of the bot, such as @hubbub:example.org; needed with MATRIX_PASSWORD")
	fs.StringArrayVar(&o.AllowUsers, "allow-user", nil,
		"id of a user who may invite the bot to rooms and write to it (repeatable; nobody is admitted by default)")
	fs.StringArrayVar(&o.AllowRooms, "allow-room", nil, "id of a room that is admitted with its members (repeatable)")
	fs.BoolVar(&o.AllowAll, "allow-all", false, "admit everybody who invites the bot")
	fs.StringArrayVar(&s.glyphs, "glyph", nil, "emoji that shows and means a signal, as SIGNAL=EMOJI (repeatable)")
	fs.StringVar(&o.FilesListen, "files-listen", "",
		"where files that people send are served to agents (default 127.0.0.1 and a port that stays; none: nowhere)")
	fs.StringVar(&o.FilesURL, "files-url", "", "address of --files-listen as agents on other machines reach it")
	s.standby.Flags(fs)
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
	case s.homeserver == "":
		return program.Usage("--homeserver is missing: give the address of the bot's homeserver, such as " +
			"https://matrix.example.org")
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
	for _, address := range []struct{ flag, raw string }{{"homeserver", s.homeserver}, {"files-url", o.FilesURL}} {
		u, err := url.Parse(address.raw)
		if address.raw != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
			return program.Usage("--%s %q is not an address such as https://matrix.example.org", address.flag,
				address.raw)
		}
	}
	if o.Glyphs, err = bridge.ParseGlyphs(s.glyphs); err != nil {
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
		env.Log.Warn().Msg("nobody is allowed by --allow-user or --allow-room: only who sends a code of `hubbub " +
			"pair` is heard")
	}
	var served atomic.Bool
	o := &s.mx
	o.Peer, o.Log = env.PeerOptions(), &env.Log
	o.OnReady = func() {
		served.Store(true)
		env.Ready()
	}
	name := o.User
	if name == "" {
		name = s.homeserver
	}
	err = s.standby.Run(ctx, env, "mx:"+name, func(ctx context.Context) error {
		b, err := mx.New(s.homeserver, db, o)
		if err != nil {
			return err
		}
		return b.Run(ctx)
	})
	if errors.Is(err, mx.ErrToken) && !served.Load() { // a token that was valid before may become valid again
		err = program.Usage("%w", err)
	}
	return errors.Join(err, db.Close())
}
