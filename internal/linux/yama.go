package linux

import (
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
)

// YamaScope reads kernel.yama.ptrace_scope below proc (kernel:
// Documentation/admin-guide/LSM/Yama.rst): 0 lets a user read the memory of
// their own processes, 1 of descendants only, 2 asks for CAP_SYS_PTRACE, 3
// refuses everyone. A kernel without Yama has no such file.
func YamaScope(proc string) (int, error) {
	return readFile(filepath.Join(proc, "sys", "kernel", "yama", "ptrace_scope"), parseYamaScope)
}

func parseYamaScope(r io.Reader) (int, error) {
	text, err := io.ReadAll(io.LimitReader(r, 64))
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || n < 0 || n > 3 {
		return 0, fmt.Errorf("no scope of Yama: %.20q", text)
	}
	return n, nil
}
