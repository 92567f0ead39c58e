// Package scripts holds the scripts that tare itself runs.
package scripts

import "embed"

// VM is vm.sh, which runs a command in a virtual machine, and what it needs.
//
//go:embed vm.sh vm/*.sh
var VM embed.FS
