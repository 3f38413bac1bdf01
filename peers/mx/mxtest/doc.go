// Package mxtest is a homeserver in memory, for tests of the bridge for Matrix. It has one bot, with
// the password "password", and people, whose clients are its methods.
//
//	s := mxtest.New("@bot:hs")
//	web := httptest.NewServer(s)
//	room := s.Room("@will:hs")
//	s.Say(room, "@will:hs", "hello")
//	s.Texts(room)
//
// It speaks the part of the client-server API that the bridge uses. Like a real server after a
// restart, it does not know transaction IDs, unless Remember is set.
package mxtest
