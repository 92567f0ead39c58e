// Command tare-exec starts a JVM so that it fits its container. It is tare exec
// alone, small enough for every image.
package main

import (
	"os"

	"tare.dev/tare/internal/launch"
)

func main() { os.Exit(launch.Host(os.Args).Run()) }
