package text

import "testing"

func TestDecode_TakesWhatEditorsWrite(t *testing.T) {
	for file, want := range map[string]string{
		"":                                 "",
		"tök\n":                            "tök\n",
		"\xef\xbb\xbftök":                  "tök",
		"\xff\xfet\x00\xf6\x00k\x00\n\x00": "tök\n",
		"\xfe\xff\x00t\x00\xf6\x00k":       "tök",
		"\xff\xfe=\xd8\x00\xde":            "😀",
		"\xff\xfe":                         "",
	} {
		if got, ok := Decode([]byte(file)); got != want || !ok {
			t.Errorf("%q: %q, %t; want %q", file, got, ok, want)
		}
	}
	for _, file := range []string{
		"t\x00o\x00k\x00", "t\xf6k", "\x00",
		"\xff\xfet\x00\x00\x00", "\xfe\xff\x00t\x00\x00", "\xff\xfet\x00\n", "\xff\xfe\x00\xd8t\x00", // UTF-16
		"\xff\xfe\x00\x00t\x00\x00\x00", "\x00\x00\xfe\xff\x00\x00\x00t", // UTF-32
	} {
		if got, ok := Decode([]byte(file)); ok {
			t.Errorf("%q is taken as %q", file, got)
		}
	}
}
