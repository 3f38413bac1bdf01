package files

import (
	"archive/zip"
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"

	"hubbub/protocol/text"
)

// maxText bounds the bytes of text extracted from one document.
const maxText = 4 << 20

var errNoText = errors.New("it is not a readable text")

// Text returns the text of a document: UTF-8, UTF-16, or an office document (docx, odt, pptx,
// odp).
func Text(body []byte) (string, error) {
	if bytes.HasPrefix(body, []byte("PK\x03\x04")) {
		return officeText(body, 8*maxText)
	}
	s, ok := text.Decode(body)
	if !ok {
		return "", errNoText
	}
	return s, nil
}

// officeText returns the text of an office document. It reads at most the given number of bytes,
// since a small archive may expand to any size.
func officeText(body []byte, most int64) (string, error) {
	archive, err := zip.NewReader(bytes.NewReader(body), int64(len(body)))
	if err != nil {
		return "", errNoText
	}
	var words strings.Builder
	left := io.LimitedReader{N: most}
	for _, part := range archive.File {
		slide := strings.HasPrefix(part.Name, "ppt/slides/slide") && strings.HasSuffix(part.Name, ".xml")
		if part.Name != "word/document.xml" && part.Name != "content.xml" && !slide {
			continue
		}
		r, err := part.Open()
		if err != nil {
			return "", errNoText
		}
		left.R = r
		err = appendXMLText(&words, &left)
		r.Close()
		if left.N <= 0 {
			break
		}
		if err != nil {
			return "", errNoText
		}
	}
	if words.Len() == 0 {
		return "", errNoText
	}
	return words.String(), nil
}

// appendXMLText appends the text of an XML document, one line per paragraph or line break. It leaves
// out deleted and moved text of tracked changes, the instructions of fields, and what a program that shows
// text boxes does not show.
func appendXMLText(words *strings.Builder, r io.Reader) error {
	d := xml.NewDecoder(r)
	for words.Len() < maxText {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch token := token.(type) {
		case xml.StartElement:
			switch token.Name.Local {
			case "delText", "instrText", "delInstrText", "moveFrom", "tracked-changes", "Fallback":
				if err := d.Skip(); err != nil {
					return err
				}
			}
		case xml.CharData:
			words.Write(token)
		case xml.EndElement:
			switch token.Name.Local {
			case "p", "h", "br", "cr", "line-break":
				words.WriteByte('\n')
			case "tab":
				words.WriteByte('\t')
			}
		}
	}
	return nil
}
