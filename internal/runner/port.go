package runner

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"tare.dev/tare/internal/linux"
)

const dialTimeout = 500 * time.Millisecond

// maxPorts bounds what FreePorts is asked for.
const maxPorts = 1000

// FreePorts asks the kernel for ports.
func (thisHost) FreePorts(ctx context.Context, n int) ([]int, error) {
	if n < 0 || n > maxPorts {
		return nil, fmt.Errorf("%d free ports: ask for 0 to %d", n, maxPorts)
	}
	var c net.ListenConfig
	ports := make([]int, 0, n)
	for range n {
		l, err := c.Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("looking for a free port: %w", err)
		}
		defer l.Close() // not sooner: it would be found again
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// Listening connects to the address, and looks for the process in /proc.
func (thisHost) Listening(ctx context.Context, addr string) (string, error) {
	d := net.Dialer{Timeout: dialTimeout}
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", ctx.Err()
	}
	conn.Close()
	if pid, name := listener(addr); pid != 0 {
		return fmt.Sprintf("process %d (%s)", pid, linux.PrintableName(name)), nil
	}
	return "a process that cannot be seen from here", nil // as one in another container
}

// listener finds the process that listens on the port of addr: the socket's
// inode out of /proc/net/tcp and tcp6 (proc_net_tcp.rst), and then whose file
// descriptor it is.
func listener(addr string) (pid int, name string) {
	_, portText, err := net.SplitHostPort(addr)
	if err != nil {
		return 0, ""
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return 0, ""
	}
	inodes := make(map[string]bool)
	for _, f := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		listeningInodes(f, uint16(port), inodes)
	}
	if len(inodes) == 0 {
		return 0, ""
	}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		fds, _ := os.ReadDir(dir + "/fd")
		for _, fd := range fds {
			link, err := os.Readlink(dir + "/fd/" + fd.Name())
			if err != nil || !inodes[strings.TrimSuffix(strings.TrimPrefix(link, "socket:["), "]")] {
				continue
			}
			pid, _ = strconv.Atoi(filepath.Base(dir))
			comm, _ := os.ReadFile(dir + "/comm")
			return pid, strings.TrimSpace(string(comm))
		}
	}
	return 0, ""
}

func listeningInodes(name string, port uint16, into map[string]bool) {
	const listen = "0A" // TCP_LISTEN
	f, err := os.Open(name)
	if err != nil {
		return
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan() && s.Err() == nil; {
		w := strings.Fields(s.Text()) // sl local rem st queues timer retransmits uid timeout inode
		if len(w) < 10 || w[3] != listen {
			continue
		}
		_, hex, _ := strings.Cut(w[1], ":")
		if p, err := strconv.ParseUint(hex, 16, 16); err == nil && uint16(p) == port {
			into[w[9]] = true
		}
	}
}
