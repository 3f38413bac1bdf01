package mcptools

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
)

// established is the kernel's code for an established connection.
const established = "01"

// isSameUser reports whether a process of this user holds the client's end of a local connection
// to server. It reports false for a closed connection.
func isSameUser(client, server netip.AddrPort) (bool, error) {
	for _, table := range []struct {
		path string
		word func(netip.AddrPort) string
		// an IPv6 socket can also reach 127.0.0.1
	}{{"/proc/self/net/tcp", kernelAddr4}, {"/proc/self/net/tcp6", kernelAddr6}} {
		user, found, err := connectionUser(table.path, table.word(client), table.word(server))
		if err != nil || found {
			return user == strconv.Itoa(os.Getuid()), err
		}
	}
	return false, nil
}

// connectionUser looks up a connection in a table of the kernel.
func connectionUser(path, local, remote string) (user string, found bool, err error) {
	file, err := os.Open(path)
	if os.IsNotExist(err) { // a kernel without IPv6
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("finding the owner of a connection: %w", err)
	}
	defer file.Close() //nolint:errcheck // only read
	rows := bufio.NewScanner(file)
	for rows.Scan() { // sl local remote state queues timer retransmits uid timeout inode
		columns := strings.Fields(rows.Text())
		if len(columns) >= 10 && columns[1] == local && columns[2] == remote {
			return columns[7], columns[3] == established && columns[9] != "0", nil
		}
	}
	return "", false, rows.Err()
}

func kernelAddr4(a netip.AddrPort) string {
	ip := a.Addr().Unmap().As4()
	return kernelAddr(ip[:], a.Port())
}

func kernelAddr6(a netip.AddrPort) string {
	ip := a.Addr().As16()
	return kernelAddr(ip[:], a.Port())
}

// kernelAddr formats an address as the kernel does: as 32-bit words, each in native byte order.
func kernelAddr(ip []byte, port uint16) string {
	var out []byte
	for w := range slices.Chunk(ip, 4) {
		out = binary.BigEndian.AppendUint32(out, binary.NativeEndian.Uint32(w))
	}
	return strings.ToUpper(hex.EncodeToString(out)) + fmt.Sprintf(":%04X", port)
}
