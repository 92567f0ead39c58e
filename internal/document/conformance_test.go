package document_test

import (
	"testing"

	"tare.dev/tare/internal/document"
	"tare.dev/tare/internal/testkit/documenttest"
)

func TestConformance(t *testing.T) {
	for name, d := range document.Corpus() {
		t.Run(name, func(t *testing.T) { documenttest.Check(t, d) })
	}
}
