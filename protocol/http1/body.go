package http1

import "io"

// LimitBody makes a body fail with the error tooLong after a number of bytes.
func LimitBody(body io.ReadCloser, limit int, tooLong error) io.ReadCloser {
	return &limitedBody{body, limit, tooLong}
}

type limitedBody struct {
	io.ReadCloser
	left    int
	tooLong error
}

func (b *limitedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, b.tooLong
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}
