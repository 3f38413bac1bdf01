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

// Limits of what may be issued below one credential that the operator made.
const (
	maxIssued     = 4096    // credentials
	maxIssuedSize = 2 << 20 // bytes of their patterns and names
	maxDepth      = 8       // length of a chain of issuers
)

// Errors of a File.
var (
	ErrExists  = errors.New("a credential of that name exists; revoke it first or choose another name")
	ErrRevoked = errors.New("the issuer's credential was revoked")
	ErrFull    = errors.New("its issuers have issued as much as they may; revoke some of it, which hubbub token list shows")
	ErrUnknown = errors.New("there is no credential of that name; list them with: hubbub token list")
)

// A File is the credentials file. Its methods may be called from any goroutine.
type File struct {
	path string

	changing sync.Mutex // held while the file is rewritten, which may take long

	mu        sync.Mutex // guards the fields below
	read      fileVersion
	version   uint64
	loaded    bool // a valid state has been read
	byHash    map[string]*Credential
	byName    map[string]*Credential
	byDerived map[string]*Credential // by the name of its derived tokens
	lastErr   error
}

// A fileVersion identifies one state of the file.
type fileVersion struct {
	modified time.Time
	size     int64
	inode    uint64
}

// NewFile returns the credentials file at path. It does no I/O.
func NewFile(path string) *File { return &File{path: path} }

// Version returns a number that grows whenever Reload or a change by this File puts a new state
// in force.
func (f *File) Version() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.version
}

// Reload reads the file if it has changed. If the file cannot be used, the last valid state
// stays in force. Reload then returns an error, but does not repeat the same error. If the
// file has never existed, the bus is open, and Reload returns nil.
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
		err = fmt.Errorf("the credentials file was deleted; the last valid state stays in force: %w", err)
		return f.reportOnceLocked(err)
	case err != nil:
		return f.reportOnceLocked(fmt.Errorf("the credentials file cannot be examined: %w", err))
	}
	now := fileVersion{modified: info.ModTime(), size: info.Size()}
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		now.inode = s.Ino
	}
	if now == f.read {
		return nil
	}
	list, err := read(f.path)
	if unread := new(fs.PathError); !errors.As(err, &unread) {
		f.read = now // but not if it could not be read: permissions may change without a new version
	}
	if err == nil && f.loaded && info.Size() == 0 {
		err = errors.New("it is empty; to revoke every credential, use: hubbub token revoke")
	}
	if err != nil {
		return f.reportOnceLocked(fmt.Errorf("the credentials file cannot be used%s: %w", f.lastStateLocked(), err))
	}
	f.setLocked(list)
	return nil
}

// lastStateLocked returns the part of an error message about the state that stays in force.
func (f *File) lastStateLocked() string {
	if f.loaded {
		return "; the last valid state stays in force"
	}
	return ""
}

// reportOnceLocked returns err, or nil if the last error was the same.
func (f *File) reportOnceLocked(err error) error {
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
	f.byDerived = make(map[string]*Credential, len(list))
	for i := range list {
		f.byHash[list[i].SHA256] = &list[i]
		f.byName[list[i].Name] = &list[i]
		f.byDerived[protocol.DerivedTokenName(protocol.NewDerivedTokenOf(list[i].SHA256, ""))] = &list[i]
	}
}

// Open reports whether the file has never existed. Then no client needs a token.
func (f *File) Open() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.loaded
}

// Lookup returns the credential of a token.
func (f *File) Lookup(token string) (*Credential, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, ok := f.byHash[Hash(token)]
	return c, ok
}

// LookupDerived returns the credential of a token that was derived for an address.
func (f *File) LookupDerived(derived, address string) (*Credential, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, ok := f.byDerived[protocol.DerivedTokenName(derived)]
	return c, ok && hmac.Equal([]byte(derived), []byte(protocol.NewDerivedTokenOf(c.SHA256, address)))
}

// Current returns the current state of c, the credential with the same name and hash.
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

// Create adds a credential and returns its token, which is stored nowhere.
func (f *File) Create(c Credential) (token string, err error) {
	return f.add(c, func([]Credential) error { return nil })
}

// Issue adds a credential for the holder of the credential issuer, which must be in force and
// allow it. It records the issuer and returns the token of the new credential.
func (f *File) Issue(issuer *Credential, c Credential) (token string, err error) {
	c.Issuer = issuer.Name
	return f.add(c, func(list []Credential) error {
		i := slices.IndexFunc(list, func(o Credential) bool {
			return o.Name == issuer.Name &&
				o.SHA256 == issuer.SHA256
		})
		if i < 0 {
			return ErrRevoked
		}
		return errors.Join(list[i].MayIssue(&c), checkIssuedCount(list, &c))
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

// Put sets a credential whose token already exists: c.SHA256 is its [Hash]. It replaces a
// credential of the same name, whose issued credentials stay. It changes nothing if c is in
// force already.
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

// Revoke removes the credential with that name, if permit allows it, and everything that it has
// issued. It returns their names, starting with name.
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

// RevokeKeepIssued removes the credential with that name. Its own issuer becomes the issuer of
// the credentials that it has issued.
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

// change rewrites the file while it holds a lock against other processes.
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

// fileContent is the content of the file.
type fileContent struct {
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
	var d fileContent
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
	return withoutOrphans(d.Credential), nil
}

func write(path string, list []Credential) error {
	var b bytes.Buffer
	b.WriteString("# Credentials of the bus: which identities, subscriptions and topics each token grants.\n" +
		"# Change it with: hubbub token create|list|revoke. The bus reloads it at once.\n" +
		"# A credential that names an issuer is valid only while the issuer is listed.\n\n")
	if err := toml.NewEncoder(&b).Encode(fileContent{Credential: list}); err != nil {
		return err
	}
	if b.Len() > maxFile {
		return fmt.Errorf("the credentials file would be larger than %d bytes; "+
			"revoke credentials that are not needed", maxFile)
	}
	if err := datafolder.WriteFile(path, b.Bytes()); err != nil {
		return fmt.Errorf("writing the credentials file: %w", err)
	}
	return nil
}
