package bounded

import (
	"io"
	"strings"
	"testing"
)

// Whatever writes, and however: no more is kept, and nobody is stopped.
func TestBuffer(t *testing.T) {
	b := &Buffer{Most: 5}
	if n, err := io.Copy(b, strings.NewReader("a longer text")); n != 13 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if n, err := b.Write([]byte("more")); n != 4 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if b.String() != "a lon" || len(b.Bytes()) != 5 {
		t.Errorf("kept: %q", b)
	}
}
