package launch

import "strings"

// From says where a setting comes from.
type From string

// The sources of a setting.
const (
	FromRule    From = "rule"
	FromProfile From = "profile" // tare.json: measured by tare fit
	FromRequest From = "asked"   // a flag of the launcher
	FromUser    From = "yours"   // the user's own; never changed
)

// Advice is one decision, with its reason.
type Advice struct {
	// Set are the options, or variables as NAME=value, that belong together:
	// all are added or none.
	Set []string `json:"set,omitempty"`
	// Process is what is set for the process itself.
	Process string `json:"process,omitempty"`
	From    From   `json:"from"`
	// Why is the reason in one line; Effect what it saves or costs, and Source
	// who says so.
	Why    string `json:"why"`
	Effect string `json:"effect,omitempty"`
	Source string `json:"source,omitempty"`
}

// name is what the table shows.
func (a Advice) name() string {
	if a.Process != "" {
		return a.Process
	}
	var shown []string
	for _, s := range a.Set {
		if s != unlockDiagnostic {
			shown = append(shown, s)
		}
	}
	return strings.Join(shown, " ")
}

const unlockDiagnostic = "-XX:+UnlockDiagnosticVMOptions"
