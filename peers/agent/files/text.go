package files

import (
	"archive/zip"
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxText bounds the bytes of text extracted from one document.
const maxText = 4 << 20

var errNoText = errors.New("it is not a readable text")

// Text returns the text of a document: UTF-8, UTF-16, or an office document (docx, odt, pptx,
// odp).
func Text(body []byte) (string, error) {
	switch {
	case bytes.HasPrefix(body, []byte("PK\x03\x04")):
		return officeText(body, 8*maxText)
	case bytes.HasPrefix(body, []byte{0xff, 0xfe}):
		return decodeUTF16(body[2:], 0, 1), nil
	case bytes.HasPrefix(body, []byte{0xfe, 0xff}):
		return decodeUTF16(body[2:], 1, 0), nil
	}
	body = bytes.TrimPrefix(body, []byte("\ufeff"))
	if !utf8.Valid(body) || bytes.IndexByte(body, 0) >= 0 {
		return "", errNoText
	}
	return string(body), nil
}

// decodeUTF16 decodes UTF-16. low and high are the offsets of the two bytes in each pair.
func decodeUTF16(body []byte, low, high int) string {
	units := make([]uint16, len(body)/2)
	for i := range units {
		units[i] = uint16(body[2*i+low]) | uint16(body[2*i+high])<<8
	}
	return string(utf16.Decode(units))
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

// appendXMLText appends the text of an XML document, one line per paragraph.
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
		case xml.CharData:
			words.Write(token)
		case xml.EndElement:
			switch token.Name.Local {
			case "p", "h":
				words.WriteByte('\n')
			case "tab":
				words.WriteByte('\t')
			}
		}
	}
	return nil
}
