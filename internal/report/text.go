package report

import (
	"fmt"
	"strconv"
	"time"
)

// Limit is a limit in MiB, without a decimal when it is whole: "166 MiB".
func Limit(n int64) string {
	if n%MiB == 0 {
		return strconv.FormatInt(n/MiB, 10) + " MiB"
	}
	return Size(n)
}

// Duration is a time with about three digits: "812 ms", "2.70 s", "2 m 03 s".
func Duration(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + Duration(-d)
	case d > 0 && d < 100*time.Microsecond:
		return strconv.FormatFloat(float64(d)/1e3, 'f', 1, 64) + " µs"
	case d < 10*time.Millisecond:
		return strconv.FormatFloat(float64(d)/1e6, 'f', 2, 64) + " ms"
	case d < 100*time.Millisecond:
		return strconv.FormatFloat(float64(d)/1e6, 'f', 1, 64) + " ms"
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Seconds(), 'f', 2, 64) + " s"
	case d < time.Minute:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	}
	s := int64(d.Round(time.Second) / time.Second)
	return fmt.Sprintf("%d m %02d s", s/60, s%60)
}

// Rate is a number of requests per second, without its unit.
func Rate(perSecond float64) string {
	if perSecond < 100 {
		return strconv.FormatFloat(perSecond, 'f', 1, 64)
	}
	return strconv.FormatFloat(perSecond, 'f', 0, 64)
}

// Change is the change from a to b in percent: "-45 %", "+52 %". It is empty
// where a is not above zero.
func Change(a, b float64) string {
	if a <= 0 {
		return ""
	}
	return fmt.Sprintf("%+.0f %%", 100*(b-a)/a)
}
