package program

import (
	"crypto/tls"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"
)

// A Certificate is a TLS certificate that is read again when its files change, because
// certificates are renewed more often than programs are restarted.
type Certificate struct {
	certFile, keyFile string
	log               *zerolog.Logger
	lookEvery         time.Duration

	mu     sync.Mutex // guards the fields below
	pair   *tls.Certificate
	files  string // state of the files that pair was read from
	looked time.Time
	told   string // the last error that was logged
}

// LoadCertificate reads a certificate and its key, both PEM.
func LoadCertificate(certFile, keyFile string, log *zerolog.Logger) (*Certificate, error) {
	c := &Certificate{certFile: certFile, keyFile: keyFile, log: log, lookEvery: time.Second}
	if err := c.loadLocked(); err != nil {
		return nil, fmt.Errorf("--tls-cert and --tls-key: %w", err)
	}
	c.looked = time.Now()
	return c, nil
}

// Config returns the configuration of a server with the certificate.
func (c *Certificate) Config() *tls.Config {
	return &tls.Config{GetCertificate: c.get, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
}

// get checks the files at most once a second. While they are unusable, for example during a
// renewal, it returns the last good pair.
func (c *Certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.looked) < c.lookEvery {
		return c.pair, nil
	}
	c.looked = time.Now()
	files, err := c.stamp()
	if err == nil && files != "" && files != c.files {
		if err = c.loadLocked(); err == nil {
			c.log.Info().Str("certificate", c.certFile).Msg("certificate read again")
		}
	}
	if err == nil {
		c.told = ""
	} else if err.Error() != c.told {
		c.told = err.Error()
		c.log.Error().Err(err).Msg("certificate not reloaded; the previous one stays in use")
	}
	return c.pair, nil
}

// stamp returns a text that changes with the files. It is empty if one of them is a pipe, because
// opening a pipe again would wait for a writer.
func (c *Certificate) stamp() (string, error) {
	stamp := ""
	for _, path := range []string{c.certFile, c.keyFile} {
		info, err := os.Stat(path)
		if err != nil {
			return "", err
		}
		if !info.Mode().IsRegular() {
			return "", nil
		}
		stat, _ := info.Sys().(*syscall.Stat_t)
		stamp += fmt.Sprintln(stat.Dev, stat.Ino, info.Size(), info.ModTime())
	}
	return stamp, nil
}

// loadLocked takes the stamp before it reads the files, so that the next check sees a change in
// between. The caller holds mu, or has just made c.
func (c *Certificate) loadLocked() error {
	files, err := c.stamp()
	if err != nil {
		return fmt.Errorf("loading the certificate: %w", err)
	}
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil { // a renewal writes two files, one after the other
		return Retryable(fmt.Errorf("loading the certificate: %w", err))
	}
	c.pair, c.files = &pair, files
	return nil
}
