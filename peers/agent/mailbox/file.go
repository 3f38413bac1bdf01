package mailbox

import "time"

// A File is the content of what came with a message.
type File struct {
	Ref     string
	Mime    string // as the content says
	Body    []byte
	Problem string // why there is no content, and never will be; a sentence
	Text    string // what is said in it, once it was transcribed
}

// maxFiles bounds the bytes of all files that are kept; the oldest go first.
const maxFiles = 256 << 20

// File returns what was fetched of a reference, or nil.
func (v *View) File(ref string) *File {
	columns := func(into **File) []any {
		*into = new(File)
		f := *into
		return []any{&f.Ref, &f.Mime, &f.Body, &f.Problem, &f.Text}
	}
	return first(v.Tx, columns, `SELECT ref, mime, body, problem, text FROM files WHERE ref = ?`, ref)
}

// SaveFile stores what was fetched of a reference, or what is known of it since, until
// Prune forgets it or newer files need its room.
func (tx *Tx) SaveFile(f *File) {
	body := f.Body
	if body == nil {
		body = []byte{}
	}
	tx.Exec(`INSERT INTO files VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (ref) DO UPDATE SET problem = excluded.problem, text = excluded.text`,
		f.Ref, f.Mime, body, f.Problem, f.Text, time.Now().UnixMicro())
	tx.Exec(`DELETE FROM files WHERE ref IN (SELECT ref FROM
		(SELECT ref, sum(length(body)) OVER (ORDER BY fetched_at DESC, ref ROWS UNBOUNDED PRECEDING) AS taken FROM files) WHERE taken > ?)`, maxFiles)
}
