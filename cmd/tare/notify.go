package main

import (
	"fmt"
	"net"
	"os"
)

// serviceManager takes over the address at which a service manager waits to hear that this
// process is up, so that no child has it (sd_notify(3), NOTIFY_SOCKET). ready tells it;
// without a service manager it does nothing.
func serviceManager() (ready func() error) {
	const variable = "NOTIFY_SOCKET"
	address := os.Getenv(variable)
	if address == "" {
		return func() error { return nil }
	}
	os.Unsetenv(variable) // it is there
	return func() error {
		c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: address, Net: "unixgram"})
		if err == nil {
			defer c.Close()
			_, err = c.Write([]byte("READY=1"))
		}
		if err != nil {
			return fmt.Errorf("telling the service manager that this is up: %w", err)
		}
		return nil
	}
}
