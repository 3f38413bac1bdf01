package program

import (
	"crypto/tls"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// A Certificate is one of TLS whose files are read again when they change, since
// certificates are renewed more often than programs are started.
type Certificate struct {
	certFile, keyFile string
	log               *zerolog.Logger
	lookEvery         time.Duration

	mu     sync.Mutex // guards the fields below
	pair   *tls.Certificate
	files  [2]os.FileInfo // of which pair was made
	looked time.Time
	told   string // the last error that was logged
}

// LoadCertificate reads a certificate and its key, both PEM.
func LoadCertificate(certFile, keyFile string, log *zerolog.Logger) (*Certificate, error) {
	c := &Certificate{certFile: certFile, keyFile: keyFile, log: log, lookEvery: time.Second}
	if err := c.loadLocked(); err != nil {
		return nil, err
	}
	c.looked = time.Now()
	return c, nil
}

// Config returns the configuration of a server that shows the certificate.
func (c *Certificate) Config() *tls.Config {
	return &tls.Config{GetCertificate: c.get, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
}

// get looks at the files at most once a second. Where they are of no use, such as
// in the middle of a renewal, the pair that was good stays.
func (c *Certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.looked) < c.lookEvery {
		return c.pair, nil
	}
	c.looked = time.Now()
	changed, err := c.changedLocked()
	if err == nil && changed {
		if err = c.loadLocked(); err == nil {
			c.log.Info().Str("certificate", c.certFile).Msg("the certificate was read again")
		}
	}
	c.tellLocked(err)
	return c.pair, nil
}

// tellLocked logs what is wrong with the files, once.
func (c *Certificate) tellLocked(err error) {
	if err == nil {
		c.told = ""
		return
	}
	if err.Error() != c.told {
		c.told = err.Error()
		c.log.Error().Err(err).Msg("the certificate cannot be read again; the one that was read stays in use")
	}
}

func (c *Certificate) stat() (files [2]os.FileInfo, err error) {
	for i, path := range []string{c.certFile, c.keyFile} {
		if files[i], err = os.Stat(path); err != nil {
			return files, err
		}
	}
	return files, nil
}

func (c *Certificate) changedLocked() (bool, error) {
	now, err := c.stat()
	if err != nil {
		return false, err
	}
	for i, was := range c.files {
		if !now[i].Mode().IsRegular() {
			return false, nil // a pipe is read once: to open it again would wait for a writer
		}
		if !os.SameFile(was, now[i]) || was.Size() != now[i].Size() || !was.ModTime().Equal(now[i].ModTime()) {
			return true, nil
		}
	}
	return false, nil
}

// loadLocked looks at the files before it reads them: a change in between is seen
// at the next look.
func (c *Certificate) loadLocked() error {
	files, err := c.stat()
	if err != nil {
		return fmt.Errorf("loading the certificate: %w", err)
	}
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return fmt.Errorf("loading the certificate: %w", err)
	}
	c.pair, c.files = &pair, files
	return nil
}
