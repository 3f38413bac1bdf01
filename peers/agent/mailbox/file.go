package mailbox

import "time"

// A File is the content of a file that came with a message.
type File struct {
	Ref     string
	Mime    string // detected from the content
	Body    []byte
	Problem string // why the content will never be available; a sentence
	Text    string // the transcript of a recording, or the text of a PDF
}

// maxFiles bounds the bytes of all stored files. The oldest are deleted first.
const maxFiles = 256 << 20

// File returns the file stored for a reference, or nil.
func (v *View) File(ref string) *File {
	columns := func(into **File) []any {
		*into = new(File)
		f := *into
		return []any{&f.Ref, &f.Mime, &f.Body, &f.Problem, &f.Text}
	}
	return First(v.Tx, columns, `SELECT ref, mime, body, problem, text FROM files WHERE ref = ?`, ref)
}

// SaveFile stores or updates a file until Prune deletes it or newer files need the space.
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
