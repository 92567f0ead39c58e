package main

import (
	"time"

	"tare.dev/tare/internal/check"
)

const minute = time.Minute

func text(have map[string][]check.Run) string { return "" }
