package jmh

import (
	"math"
	"strconv"
)

// Quantity is a number with four digits or so.
func Quantity(v float64) string { return strconv.FormatFloat(v, 'f', decimals(v), 64) }

func decimals(v float64) int {
	switch v = math.Abs(v); {
	case v >= 1000 || v == 0:
		return 0
	case v >= 100:
		return 1
	case v >= 10:
		return 2
	case v >= 1:
		return 3
	}
	return 4
}

// Interval is the half width of an estimate's interval, "± 1.2", with as many
// decimals as the centre; "" without an interval.
func (e Estimate) Interval() string {
	if e.Low == nil {
		return ""
	}
	return "± " + strconv.FormatFloat(e.Margin(), 'f', decimals(e.Center), 64)
}
