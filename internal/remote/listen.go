package remote

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
)

// Listen listens on an address as in NewClient. Only the user can connect to a
// socket of a path, which is removed when the listener is closed. A socket that
// an ended agent left is replaced.
func Listen(address string) (net.Listener, error) {
	network, place, err := Address(address)
	if err != nil {
		return nil, err
	}
	if network == "unix" {
		return listenUnix(place)
	}
	return net.Listen(network, place)
}

func listenUnix(path string) (net.Listener, error) {
	if st, err := os.Lstat(path); err == nil && st.Mode()&os.ModeSocket != 0 {
		conn, err := net.Dial("unix", path)
		if err == nil {
			conn.Close()
			return nil, fmt.Errorf("an agent listens on %s already: end it, or give another path", path)
		}
		if errors.Is(err, syscall.ECONNREFUSED) {
			_ = os.Remove(path) // else to listen fails, and says why
		}
	}
	// Nobody may connect between bind and chmod: the mode is set from the
	// start, by the umask, which belongs to the whole process.
	before := syscall.Umask(0o177)
	l, err := net.Listen("unix", path)
	syscall.Umask(before)
	if err != nil {
		return nil, err
	}
	return l, nil
}
