package watch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/report"
)

// headerEvery is how many lines share one header.
const headerEvery = 20

// column is one number of a line.
type column struct {
	name   string
	owners []footprint.Owner // nil is what no other column counts
}

// columns are the rows as a line sums them up.
var columns = []column{
	{"heap", []footprint.Owner{footprint.JavaHeap}},
	{"malloc", []footprint.Owner{footprint.Malloc}},
	{"stacks", []footprint.Owner{footprint.ThreadStacks}},
	{"meta", []footprint.Owner{footprint.Metaspace, footprint.ClassSpace}},
	{"code", []footprint.Owner{footprint.CodeCache}},
	{"other", nil},
}

// Lines writes one line for each footprint of a session, until the session
// ends, the JVM ends, or ctx does; none of these is an error.
func Lines(ctx context.Context, w io.Writer, s *Session) error {
	for n := 0; ; n++ {
		f, err := s.Next(ctx)
		switch {
		case errors.Is(err, ErrEnded):
			_, err := fmt.Fprintln(w, "the JVM has ended")
			return err
		case errors.Is(err, io.EOF), err != nil && ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		if n == 0 {
			if _, err := fmt.Fprintln(w, title(f)+" · sizes in MiB"); err != nil {
				return err
			}
		}
		if n%headerEvery == 0 {
			if _, err := fmt.Fprintln(w, header()); err != nil {
				return err
			}
		}
		if _, err := fmt.Fprintln(w, line(f)); err != nil {
			return err
		}
	}
}

// title names the JVM.
func title(f *footprint.Footprint) string {
	return linux.Printable(fmt.Sprintf("java %s %s · pid %d · %s", cmp.Or(f.JDK, "?"), cmp.Or(f.Collector, "?"), f.PID, f.Name))
}

func header() string {
	text := fmt.Sprintf("%-8s%7s", "time", "rss")
	for _, c := range columns {
		text += fmt.Sprintf("%7s", c.name)
	}
	return text + fmt.Sprintf("%7s%7s%9s", "usage", "limit", "headroom")
}

// line is a footprint in 80 columns. The numbers from heap to other add up to
// rss; a number that is not known is "-".
func line(f *footprint.Footprint) string {
	text := fmt.Sprintf("%-8s%7s", f.Time.Format("15:04:05"), mib(f.RSSBytes))
	rest := f.RSSBytes
	for _, c := range columns {
		n := rest
		if c.owners != nil {
			n = 0
			for _, o := range c.owners {
				r, _ := f.Row(o)
				n += r.ResidentBytes
			}
			rest -= n
		}
		text += fmt.Sprintf("%7s", mib(n))
	}
	usage, limit, headroom := "-", "-", "-"
	if c := f.Cgroup; c != nil {
		usage = mib(c.UsageBytes)
		if c.LimitBytes != nil {
			limit, headroom = mib(*c.LimitBytes), mib(*c.HeadroomBytes)
		}
	}
	return text + fmt.Sprintf("%7s%7s%9s", usage, limit, headroom)
}

// mib is a size in MiB without the unit, in at most six characters below
// 1 TiB.
func mib(bytes int64) string {
	decimals := 1
	if bytes >= 1000<<20 || bytes <= -1000<<20 {
		decimals = 0
	}
	return strconv.FormatFloat(float64(bytes)/report.MiB, 'f', decimals, 64)
}
