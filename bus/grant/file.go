package grant

import (
	"bytes"
	"crypto/hmac"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"syscall"
	"time"

	"hubbub/protocol"
	"hubbub/protocol/datafolder"

	"github.com/BurntSushi/toml"
)

// FileName is the name of the credentials file in the bus's data folder.
const FileName = "credentials.toml"

// maxFile bounds the credentials file, in bytes.
const maxFile = 16 << 20

// What one credential that the operator made may issue, with what its own have issued: so
// many credentials, of so many bytes of patterns, one below the other so often.
const (
	maxIssued      = 4096
	maxIssuedBytes = 2 << 20
	maxDepth       = 8
)

// Errors of a File.
var (
	ErrExists  = errors.New("a credential of that name exists; revoke it first or choose another name")
	ErrRevoked = errors.New("the issuer's credential was revoked")
	ErrFull    = errors.New("it and its issuers have issued as much as they may; revoke some of that: hubbub token list shows it")
	ErrUnknown = errors.New("there is no credential of that name; list them with: hubbub token list")
)

// A File is the credentials file. Its methods may be called from any goroutine.
type File struct {
	path string

	changing sync.Mutex // held while the file is rewritten, which may wait for the disk or another process

	mu      sync.Mutex // guards the fields below
	stamp   stamp
	version uint64
	loaded  bool // a good state was read once
	byHash  map[string]*Credential
	byName  map[string]*Credential
	byPass  map[string]*Credential // by the name of its passes
	lastErr error
}

// A stamp tells whether the file has changed.
type stamp struct {
	modified time.Time
	size     int64
	inode    uint64
}

// NewFile returns the credentials file at path. It does no I/O.
func NewFile(path string) *File { return &File{path: path} }

// Version returns a number that grows whenever a new state comes into force, by Reload
// or by a change that this File makes.
func (f *File) Version() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.version
}

// Reload reads the file if it has changed. If the file cannot be used, the last good
// state stays in force and Reload returns an error, the same one only once. It is no
// error if the file has never existed: the bus is open.
func (f *File) Reload() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reloadLocked()
}

func (f *File) reloadLocked() error {
	info, err := os.Stat(f.path)
	if errors.Is(err, fs.ErrNotExist) && !f.loaded {
		return nil
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return f.keepLocked(fmt.Errorf("the credentials file is gone; the last state stays in force: %w", err))
	case err != nil:
		return f.keepLocked(fmt.Errorf("the credentials file cannot be looked at: %w", err))
	}
	now := stamp{modified: info.ModTime(), size: info.Size()}
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		now.inode = s.Ino
	}
	if now == f.stamp {
		return nil
	}
	list, err := read(f.path)
	if unread := new(fs.PathError); !errors.As(err, &unread) {
		f.stamp = now // but a file that could not be read is read again: a stamp does not show permissions
	}
	if err == nil && f.loaded && info.Size() == 0 {
		err = errors.New("it is empty; to revoke every credential, use: hubbub token revoke")
	}
	if err != nil {
		return f.keepLocked(fmt.Errorf("the credentials file cannot be used%s: %w", f.insteadLocked(), err))
	}
	f.setLocked(list)
	return nil
}

// insteadLocked returns what to say about the state that stays in force.
func (f *File) insteadLocked() string {
	if f.loaded {
		return "; the last good state stays in force"
	}
	return ""
}

// keepLocked returns an error, or nil if it is the same as the last one.
func (f *File) keepLocked(err error) error {
	if f.lastErr != nil && f.lastErr.Error() == err.Error() {
		return nil
	}
	f.lastErr = err
	return err
}

func (f *File) setLocked(list []Credential) {
	f.loaded, f.lastErr = true, nil
	f.version++
	f.byHash = make(map[string]*Credential, len(list))
	f.byName = make(map[string]*Credential, len(list))
	f.byPass = make(map[string]*Credential, len(list))
	for i := range list {
		f.byHash[list[i].SHA256] = &list[i]
		f.byName[list[i].Name] = &list[i]
		f.byPass[protocol.DerivedTokenName(protocol.NewDerivedTokenOf(list[i].SHA256, ""))] = &list[i]
	}
}

// Open reports whether the file never existed: then nobody needs a token.
func (f *File) Open() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.loaded
}

// Lookup returns the credential that a token belongs to.
func (f *File) Lookup(token string) (*Credential, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, ok := f.byHash[Hash(token)]
	return c, ok
}

// LookupPass returns the credential that a pass for an address belongs to.
func (f *File) LookupPass(pass, address string) (*Credential, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, ok := f.byPass[protocol.DerivedTokenName(pass)]
	return c, ok && hmac.Equal([]byte(pass), []byte(protocol.NewDerivedTokenOf(c.SHA256, address)))
}

// Current returns the credential in force that has the name and the hash of c.
func (f *File) Current(c *Credential) (*Credential, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now, ok := f.byName[c.Name]
	if !ok || now.SHA256 != c.SHA256 {
		return nil, false
	}
	return now, true
}

// Issuers returns the credential that issued c, the one that issued that, and so on.
func (f *File) Issuers(c *Credential) (above []*Credential) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for issuer := f.byName[c.Issuer]; issuer != nil; issuer = f.byName[issuer.Issuer] {
		above = append(above, issuer)
	}
	return above
}

// List returns the credentials, sorted by name.
func (f *File) List() []Credential {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := make([]Credential, 0, len(f.byName))
	for _, c := range f.byName {
		list = append(list, *c)
	}
	slices.SortFunc(list, func(a, b Credential) int { return bytes.Compare([]byte(a.Name), []byte(b.Name)) })
	return list
}

// Create adds a credential and returns its token, which exists nowhere else.
func (f *File) Create(c Credential) (token string, err error) {
	return f.add(c, func([]Credential) error { return nil })
}

// Issue is Create for the holder of another credential, which it records: it must still
// be in force, and allow it.
func (f *File) Issue(issuer *Credential, c Credential) (token string, err error) {
	c.Issuer = issuer.Name
	return f.add(c, func(list []Credential) error {
		i := slices.IndexFunc(list, func(o Credential) bool { return o.Name == issuer.Name && o.SHA256 == issuer.SHA256 })
		if i < 0 {
			return ErrRevoked
		}
		return errors.Join(list[i].MayIssue(&c), roomFor(list, &c))
	})
}

func (f *File) add(c Credential, permit func([]Credential) error) (token string, err error) {
	token = NewToken()
	c.SHA256 = Hash(token)
	if err := c.Check(); err != nil {
		return "", err
	}
	return token, f.change(func(list []Credential) ([]Credential, error) {
		if err := permit(list); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(list, func(o Credential) bool { return o.Name == c.Name }) {
			return nil, ErrExists
		}
		return append(list, c), nil
	})
}

// Put sets a credential whose token exists already: c.SHA256 is its [Hash]. It replaces a
// credential of the same name, which keeps what it has issued, and changes nothing if c
// is in force already.
func (f *File) Put(c Credential) error {
	if err := c.Check(); err != nil {
		return err
	}
	if now, ok := f.Current(&c); ok && reflect.DeepEqual(*now, c) {
		return nil
	}
	return f.change(func(list []Credential) ([]Credential, error) {
		list = slices.DeleteFunc(list, func(o Credential) bool { return o.Name == c.Name })
		return append(list, c), nil
	})
}

// Revoke removes the credential of that name, if permit allows it, and all that it has
// issued. It returns their names, the one that was asked for first.
func (f *File) Revoke(name string, permit func(*Credential) error) (names []string, err error) {
	err = f.change(func(list []Credential) ([]Credential, error) {
		i := slices.IndexFunc(list, func(o Credential) bool { return o.Name == name })
		if i < 0 {
			return nil, ErrUnknown
		}
		if permit != nil {
			if err := permit(&list[i]); err != nil {
				return nil, err
			}
		}
		names = append([]string{name}, Issued(list, name)...)
		return slices.DeleteFunc(list, func(o Credential) bool { return slices.Contains(names, o.Name) }), nil
	})
	return names, err
}

// RevokeKeepIssued removes the credential of that name. What it has issued stays, as if its
// own issuer had issued it.
func (f *File) RevokeKeepIssued(name string) error {
	return f.change(func(list []Credential) ([]Credential, error) {
		i := slices.IndexFunc(list, func(o Credential) bool { return o.Name == name })
		if i < 0 {
			return nil, ErrUnknown
		}
		for j := range list {
			if list[j].Issuer == name {
				list[j].Issuer = list[i].Issuer
			}
		}
		return slices.Delete(list, i, i+1), nil
	})
}

// change rewrites the file while it holds a lock that other processes respect.
func (f *File) change(edit func([]Credential) ([]Credential, error)) error {
	f.changing.Lock()
	defer f.changing.Unlock()
	if err := datafolder.MkdirAll(filepath.Dir(f.path)); err != nil {
		return err
	}
	lock, err := datafolder.Lock(f.path+".lock", true)
	if err != nil {
		return fmt.Errorf("locking the credentials file: %w", err)
	}
	defer lock.Close() //nolint:errcheck // nothing was written to it
	list, err := read(f.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if list, err = edit(list); err != nil {
		return err
	}
	if err := write(f.path, list); err != nil {
		return err
	}
	return f.Reload()
}

// document is the content of the file.
type document struct {
	Credential []Credential `toml:"credential"`
}

func read(path string) ([]Credential, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxFile {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxFile)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var d document
	meta, err := toml.Decode(string(b), &d)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if unknown := meta.Undecoded(); len(unknown) > 0 {
		return nil, fmt.Errorf("%s: unknown key %q", path, unknown[0])
	}
	names := map[string]bool{}
	for i := range d.Credential {
		if err := d.Credential[i].Check(); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if names[d.Credential[i].Name] {
			return nil, fmt.Errorf("%s: two credentials are named %q", path, d.Credential[i].Name)
		}
		names[d.Credential[i].Name] = true
	}
	return rooted(d.Credential), nil
}

func write(path string, list []Credential) error {
	var b bytes.Buffer
	b.WriteString("# Credentials of the bus: who may be whom, hear what and say where.\n" +
		"# Change it with: hubbub token create|list|revoke. The bus reloads it at once.\n" +
		"# One that names an issuer counts only while that one is here.\n\n")
	if err := toml.NewEncoder(&b).Encode(document{Credential: list}); err != nil {
		return err
	}
	if b.Len() > maxFile {
		return fmt.Errorf("the credentials file would be larger than %d bytes; revoke credentials that nobody needs", maxFile)
	}
	if err := datafolder.WriteFile(path, b.Bytes()); err != nil {
		return fmt.Errorf("writing the credentials file: %w", err)
	}
	return nil
}
