package trial

import (
	"context"
	"fmt"
	"net"
	"slices"

	"tare.dev/tare/internal/load"
	"tare.dev/tare/internal/runner"
)

// PortInUseError says that something answers already where the application is
// to listen.
type PortInUseError struct {
	Addr string
	// Who listens there, as in "process 12 (java)".
	Who string
}

// Error names the port, who has it, and what to do.
func (e *PortInUseError) Error() string {
	_, port, _ := net.SplitHostPort(e.Addr)
	return fmt.Sprintf("port %s is already in use by %s: stop it, or give the application another port", port, e.Who)
}

// checkPorts makes sure that nothing answers where the application will: load
// would go to another process and say nothing of this one.
func checkPorts(ctx context.Context, host runner.Host, addrs []string) error {
	for _, addr := range addrs {
		who, err := host.Listening(ctx, addr)
		if err != nil {
			return err
		}
		if who != "" {
			return &PortInUseError{Addr: addr, Who: who}
		}
	}
	return ctx.Err()
}

// localAddrs are the loopback addresses that readiness and load ask. l is nil
// where there is no load.
func localAddrs(r Ready, l load.Loader) []string {
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
	if r.target != nil {
		if addr, ok := r.target.Address(); ok {
			add(addr)
		}
	}
	if l != nil {
		for _, addr := range l.Addresses() {
			add(addr)
		}
	}
	return all
}
