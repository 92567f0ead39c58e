// Package cachedir says where tare keeps what can be made or fetched again.
package cachedir

import (
	"fmt"
	"os"
	"path/filepath"
)

// Path is TARE_CACHE, else tare below the user's cache folder. It may not exist.
func Path() (string, error) {
	if dir := os.Getenv("TARE_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("cache folder: %w: set TARE_CACHE", err)
	}
	return filepath.Join(dir, "tare"), nil
}
