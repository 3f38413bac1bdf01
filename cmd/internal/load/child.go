package load

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
)

// A Child is a server in a process of its own, which separates its use of resources from that of
// the driver. It ends when its standard input does.
type Child struct {
	Address string

	cmd *exec.Cmd
	in  io.WriteCloser
	mu  sync.Mutex // held during a request
	out *bufio.Reader
}

// StartChild starts a command that calls ServeChild.
func StartChild(cmd *exec.Cmd) (*Child, error) {
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", cmd, err)
	}
	c := &Child{cmd: cmd, in: in, out: bufio.NewReader(out)}
	if _, err := fmt.Fscanln(c.out, &c.Address); err != nil {
		return nil, errors.Join(fmt.Errorf("%s does not start: %w", cmd, err), c.Stop())
	}
	return c, nil
}

// Stop ends the process and waits for it.
func (c *Child) Stop() error {
	c.in.Close() //nolint:errcheck // it may have ended
	return c.cmd.Wait()
}

// usage requests the usage of the process.
func (c *Child) usage(context.Context) (u usage, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := io.WriteString(c.in, "\n"); err != nil {
		return u, err
	}
	_, err = fmt.Fscanln(c.out, &u.cpu, &u.rss)
	return u, err
}

// ServeChild makes this process a Child. It serves on a free port, prints its address with the
// given scheme, and prints its usage for each line of in.
func ServeChild(
	ctx context.Context,
	in io.Reader,
	out io.Writer,
	scheme string,
	serve func(context.Context, net.Listener) error,
) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if _, err := fmt.Fprintf(out, "%s://%s\n", scheme, listener.Addr()); err != nil {
		return err
	}
	go func() { // until in ends
		defer cancel()
		for lines := bufio.NewScanner(in); lines.Scan(); {
			if _, err := fmt.Fprintln(out, ownCPU(), ownMemory()); err != nil {
				return
			}
		}
	}()
	return serve(ctx, listener)
}

// ownMemory returns the resident bytes of this process, or 0 if the system does not report them.
func ownMemory() int64 {
	var size, resident int64
	file, err := os.Open("/proc/self/statm")
	if err != nil {
		return 0
	}
	defer file.Close() //nolint:errcheck // read only
	if _, err := fmt.Fscan(file, &size, &resident); err != nil {
		return 0
	}
	return resident * int64(os.Getpagesize())
}
