package linux

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Unlimited is the value of a limit that is not set.
const Unlimited = -1

// StackLimit reads the soft limit of the stack of process pid in bytes, or
// Unlimited, from /proc/PID/limits (kernel: Documentation/filesystems/proc.rst).
// It is the size of the stacks of threads that ask for none (pthread_create(3)).
func (fs FS) StackLimit(pid int) (int64, error) { return open(fs, pid, "limits", parseStackLimit) }

func parseStackLimit(r io.Reader) (int64, error) {
	limit, found := int64(0), false
	err := eachLine(r, func(line string) error {
		values, ok := strings.CutPrefix(line, "Max stack size ")
		if !ok {
			return nil
		}
		fields := strings.Fields(values)
		if len(fields) < 2 {
			return errors.New("want a soft and a hard limit")
		}
		found = true
		if fields[0] == "unlimited" {
			limit = Unlimited
			return nil
		}
		n, err := strconv.ParseInt(fields[0], 10, 64)
		if err != nil || n < 0 {
			return errors.New("the soft limit is not a number")
		}
		limit = n
		return nil
	})
	if err == nil && !found {
		err = fmt.Errorf("no stack size")
	}
	return limit, err
}
