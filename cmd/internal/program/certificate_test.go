package program

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// writeCertificate makes a pair for a name, as a renewal does: new files, renamed
// over the old ones. Either may be left out.
func writeCertificate(t *testing.T, certFile, keyFile, name string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: cert}, keyFile: {Type: "PRIVATE KEY", Bytes: raw}} {
		if path == "" {
			continue
		}
		if err := os.WriteFile(path+".new", pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCertificate_IsReadAgainWhenRenewed(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writeCertificate(t, certFile, keyFile, "first")
	var logged bytes.Buffer
	log := zerolog.New(&logged)
	c, err := LoadCertificate(certFile, keyFile, &log)
	if err != nil {
		t.Fatal(err)
	}
	c.lookEvery = 0
	shows := func(want string) {
		t.Helper()
		pair, err := c.Config().GetCertificate(&tls.ClientHelloInfo{})
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := x509.ParseCertificate(pair.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		if leaf.Subject.CommonName != want {
			t.Errorf("the certificate shown is of %q; want %q", leaf.Subject.CommonName, want)
		}
	}
	shows("first")
	writeCertificate(t, certFile, keyFile, "second")
	shows("second")

	writeCertificate(t, certFile, "", "third without its key")
	shows("second")
	shows("second")
	if n := strings.Count(logged.String(), "stays in use"); n != 1 {
		t.Errorf("a pair that does not match was told %d times; want once:\n%s", n, logged.String())
	}
	writeCertificate(t, certFile, keyFile, "third")
	shows("third")

	if err := os.Remove(keyFile); err != nil {
		t.Fatal(err)
	}
	shows("third")
	if !strings.Contains(logged.String(), "no such file") {
		t.Errorf("a key that is gone was not told:\n%s", logged.String())
	}
}

// TestCertificate_FromAPipeIsReadOnce passes a key through a pipe, as a program that keeps keys
// sealed does. A pipe cannot be read twice.
func TestCertificate_FromAPipeIsReadOnce(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile, pipe := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), filepath.Join(dir, "pipe")
	writeCertificate(t, certFile, keyFile, "one")
	key, err := os.ReadFile(keyFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	written := make(chan error, 1)
	go func() { written <- os.WriteFile(pipe, key, 0) }()
	log := zerolog.Nop()
	c, err := LoadCertificate(certFile, pipe, &log)
	if err := errors.Join(err, <-written); err != nil {
		t.Fatal(err)
	}
	c.lookEvery = 0
	if err := os.Chtimes(pipe, time.Now(), time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if pair, err := c.get(nil); err != nil || pair == nil {
		t.Errorf("%v, %v", pair, err)
	}
}

func TestCertificate_RefusesUnreadableFiles(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	log := zerolog.Nop()
	if _, err := LoadCertificate(certFile, keyFile, &log); err == nil || !strings.Contains(err.Error(), certFile) || strings.Contains(err.Error(), "\n") {
		t.Errorf("without files: %v", err)
	}
	writeCertificate(t, certFile, keyFile, "one")
	writeCertificate(t, "", keyFile, "another")
	if _, err := LoadCertificate(certFile, keyFile, &log); err == nil {
		t.Error("a key of another certificate is not refused")
	}
}
