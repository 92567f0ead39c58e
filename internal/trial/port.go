package trial

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"tare/internal/load"
)

// PortInUseError says that something answers already where the application is
// to listen.
type PortInUseError struct {
	Addr string
	// PID and Name are the process that listens; 0 and "" when it cannot be
	// found, as in another container.
	PID  int
	Name string
}

// Error names the port, who has it, and what to do.
func (e *PortInUseError) Error() string {
	_, port, _ := net.SplitHostPort(e.Addr)
	who := "a process that cannot be seen from here"
	if e.PID != 0 {
		who = fmt.Sprintf("process %d (%s)", e.PID, e.Name)
	}
	return fmt.Sprintf("port %s is already in use by %s: stop it, or give the application another port", port, who)
}

// FreePorts are n different TCP ports of the loopback that nobody listened on a
// moment ago.
func FreePorts(n int) ([]int, error) {
	ports := make([]int, 0, n)
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("looking for a free port: %w", err)
		}
		defer l.Close() // not sooner: it would be found again
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

const dialTimeout = 500 * time.Millisecond

// checkPorts makes sure that nothing answers where the application will: load
// would go to another process and say nothing of this one.
func checkPorts(ctx context.Context, addrs []string) error {
	for _, addr := range addrs {
		d := net.Dialer{Timeout: dialTimeout}
		conn, err := d.DialContext(ctx, "tcp", addr)
		if err != nil {
			continue
		}
		conn.Close()
		e := &PortInUseError{Addr: addr}
		e.PID, e.Name = listener(addr)
		return e
	}
	return ctx.Err()
}

// localAddrs are the loopback addresses that readiness and load ask.
func localAddrs(r Ready, targets []load.Target) []string {
	var all []string
	add := func(addr string) {
		host, _, err := net.SplitHostPort(addr)
		if err != nil || slices.Contains(all, addr) {
			return
		}
		if ip := net.ParseIP(host); host == "localhost" || ip != nil && (ip.IsLoopback() || ip.IsUnspecified()) {
			all = append(all, addr)
		}
	}
	if r.addr != "" {
		add(r.addr)
	}
	urls := targets
	if r.target != nil {
		urls = append([]load.Target{*r.target}, targets...)
	}
	for _, t := range urls {
		u, err := url.Parse(t.URL)
		if err != nil {
			continue
		}
		port := u.Port()
		if port == "" {
			port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
		}
		add(net.JoinHostPort(u.Hostname(), port))
	}
	return all
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
