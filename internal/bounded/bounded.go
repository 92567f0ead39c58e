// Package bounded keeps the beginning of what somebody else writes.
package bounded

// Buffer keeps the first Most bytes that are written to it, and takes the others. It has no
// ReadFrom, by which io.Copy would pass the bound.
type Buffer struct {
	Most int
	kept []byte
}

// Write takes all of p.
func (b *Buffer) Write(p []byte) (int, error) {
	b.kept = append(b.kept, p[:min(len(p), b.Most-len(b.kept))]...)
	return len(p), nil
}

// Bytes are those that were kept.
func (b *Buffer) Bytes() []byte { return b.kept }

// String is what was kept.
func (b *Buffer) String() string { return string(b.kept) }
