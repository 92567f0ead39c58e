package linux

import (
	"os"
	"path/filepath"
	"strings"
)

// PagesOutIdle says whether the kernel reclaims pages that were not used for a
// while, even where memory is free: by a scheme of DAMON with the action pageout
// (kernel: Documentation/admin-guide/mm/damon/usage.rst). sys is where sysfs is
// mounted. It is false where sysfs does not tell.
func PagesOutIdle(sys string) bool {
	actions, _ := filepath.Glob(filepath.Join(sys, "kernel/mm/damon/admin/kdamonds/*/contexts/*/schemes/*/action"))
	for _, file := range actions {
		if holds(file, "pageout") && holds(filepath.Join(filepath.Dir(file), "../../../../state"), "on") {
			return true
		}
	}
	return false
}

// holds says that a file holds a word, and nothing else.
func holds(file, word string) bool {
	b, err := os.ReadFile(file)
	return err == nil && strings.TrimSpace(string(b)) == word
}
