package ledger

import (
	"fmt"
	"os"
	"path/filepath"
)

// systemDir is the ledger of a machine's agent.
const systemDir = "/var/lib/tare/ledger"

// DefaultDir is where an agent keeps its ledger, and where readers look for it:
// TARE_LEDGER, else /var/lib/tare/ledger for root, else tare/ledger below the
// user's state folder ($XDG_STATE_HOME or ~/.local/state).
func DefaultDir() (string, error) {
	if dir := os.Getenv("TARE_LEDGER"); dir != "" {
		return filepath.Abs(dir)
	}
	if os.Geteuid() == 0 {
		return systemDir, nil
	}
	base := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(base) { // as the XDG base directory specification has it
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("folder of the ledger: %w: set TARE_LEDGER", err)
		}
		base = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(base, "tare", "ledger"), nil
}
