package remote

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"time"

	"tare.dev/tare/internal/runner"
)

// volume is a Runner to whose processes a client gives files, and takes files that they
// wrote: a runner.Volume.
type volume interface {
	Put(ctx context.Context, name string, changed time.Time, content io.Reader) error
	Take(ctx context.Context, name string) (*os.File, error)
}

const (
	// MaxFile bounds a file that is put or taken: class archives have 10 to 150 MiB.
	MaxFile = 1 << 30
	// transferTime is how long that may take.
	transferTime = 5 * time.Minute
	// maxHead bounds the line before the content.
	maxHead = 64 << 10
)

// head is the line before the content of a file; Changed is when it last was, Digest its
// SHA-256 in hexadecimal digits.
type head struct {
	Name    string
	Changed time.Time
	Bytes   int64
	Digest  string
}

// headOf reads a file for its head, and goes back to its beginning.
func headOf(name string, f *os.File) (head, error) {
	st, err := f.Stat()
	if err == nil && st.Size() > MaxFile {
		err = fmt.Errorf("%s has %d MiB, more than %d: %w", name, st.Size()>>20, MaxFile>>20, runner.ErrNotWritten)
	}
	if err != nil {
		return head{}, err
	}
	sum := sha256.New()
	n, err := io.Copy(sum, io.LimitReader(f, MaxFile))
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	return head{name, st.ModTime(), n, hex.EncodeToString(sum.Sum(nil))}, err
}

// framed is a line and then the content of a file.
func framed(line any, f *os.File, bytesOfFile int64) (body io.Reader, size int64, err error) {
	text, err := json.Marshal(line)
	if err != nil {
		return nil, 0, err
	}
	text = append(text, '\n')
	return io.MultiReader(bytes.NewReader(text), io.LimitReader(f, bytesOfFile)), int64(len(text)) + bytesOfFile, nil
}

// readLine reads the line before the content.
func readLine(from *bufio.Reader, into any) error {
	line, err := from.ReadSlice('\n')
	if err == nil {
		err = json.Unmarshal(line, into)
	}
	if err != nil {
		return fmt.Errorf("the line before a file: %w", err)
	}
	return nil
}

// received is the content of a file that is sent. It ends without an error only where it
// is what its head says.
type received struct {
	from   io.Reader
	left   int64
	sum    hash.Hash
	digest string
}

func newReceived(from io.Reader, h head) (*received, error) {
	if h.Bytes < 0 || h.Bytes > MaxFile {
		return nil, fmt.Errorf("a file of %d bytes: want %d MiB at most", h.Bytes, MaxFile>>20)
	}
	return &received{from, h.Bytes, sha256.New(), h.Digest}, nil
}

// Read reads what is left.
func (r *received) Read(p []byte) (int, error) {
	if r.left == 0 {
		if got := hex.EncodeToString(r.sum.Sum(nil)); got != r.digest {
			return 0, fmt.Errorf("a file was changed on its way: its SHA-256 is %s, want %.64q", got, r.digest)
		}
		return 0, io.EOF
	}
	n, err := r.from.Read(p[:min(int64(len(p)), r.left)])
	r.left -= int64(n)
	r.sum.Write(p[:n])
	if errors.Is(err, io.EOF) {
		if err = nil; r.left > 0 {
			err = io.ErrUnexpectedEOF
		}
	}
	return n, err
}

func (s *Server) handleFiles() {
	v, ok := s.runner.(volume)
	if !ok {
		return
	}
	s.mux.HandleFunc("POST /put", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := inTime(w, r)
		defer cancel()
		err := put(ctx, v, r.Body)
		if err != nil {
			_, _ = io.Copy(io.Discard, io.LimitReader(r.Body, MaxFile)) // or the client would not read the answer
		}
		_ = json.NewEncoder(w).Encode(answer[none]{Error: failureOf(err)})
	})
	s.mux.HandleFunc("POST /take", func(w http.ResponseWriter, r *http.Request) {
		var in fileRequest
		if !decode(w, r, &in) {
			return
		}
		ctx, cancel := inTime(w, r)
		defer cancel()
		body, err := take(ctx, v, in.Name)
		if err != nil {
			_ = json.NewEncoder(w).Encode(answer[head]{Error: failureOf(err)})
			return
		}
		defer body.Close()
		_, _ = io.Copy(w, body) // the client sees what is missing
	})
}

// inTime ends a transfer that takes too long.
func inTime(w http.ResponseWriter, r *http.Request) (context.Context, context.CancelFunc) {
	control, end := http.NewResponseController(w), time.Now().Add(transferTime)
	_ = control.SetReadDeadline(end) // every connection of net/http has both
	_ = control.SetWriteDeadline(end)
	return context.WithDeadline(r.Context(), end)
}

func put(ctx context.Context, v volume, body io.Reader) error {
	from := bufio.NewReaderSize(body, maxHead)
	var h head
	if err := readLine(from, &h); err != nil {
		return err
	}
	content, err := newReceived(from, h)
	if err != nil {
		return err
	}
	return v.Put(ctx, h.Name, h.Changed, content)
}

// take is a file as it is sent.
func take(ctx context.Context, v volume, name string) (io.ReadCloser, error) {
	f, err := v.Take(ctx, name)
	if err != nil {
		return nil, err
	}
	h, err := headOf(name, f)
	if err == nil {
		var body io.Reader
		if body, _, err = framed(answer[head]{Result: h}, f, h.Bytes); err == nil {
			return struct {
				io.Reader
				io.Closer
			}{body, f}, nil
		}
	}
	return nil, errors.Join(err, f.Close())
}

// Put gives processes where the agent is a file, of MaxFile at most, under a name that is
// free there, with the time of its last change. The agent checks that it has all of it.
func (c *Client) Put(ctx context.Context, name string, file *os.File) error {
	ctx, cancel := context.WithTimeout(ctx, transferTime)
	defer cancel()
	h, err := headOf(name, file)
	if err != nil {
		return err
	}
	body, size, err := framed(h, file, h.Bytes)
	if err != nil {
		return err
	}
	resp, err := c.post(ctx, "/put", body, size)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var out answer[none]
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxHead)).Decode(&out); err != nil {
		return fmt.Errorf("agent: answer to the file %s: %w", name, err)
	}
	return out.Error.err()
}

// Take copies a file that a process wrote where the agent is. The error wraps
// fs.ErrNotExist where there is none, and runner.ErrNotWritten where there is something
// else, or a file of more than MaxFile. After any error, what was copied is of no use.
func (c *Client) Take(ctx context.Context, name string, into io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, transferTime)
	defer cancel()
	resp, err := c.request(ctx, "/take", fileRequest{name})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	from := bufio.NewReaderSize(resp.Body, maxHead)
	var out answer[head]
	if err := readLine(from, &out); err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	if err := out.Error.err(); err != nil {
		return err
	}
	content, err := newReceived(from, out.Result)
	if err == nil {
		_, err = io.Copy(into, content)
	}
	if err != nil {
		return fmt.Errorf("agent: file %s: %w", name, err)
	}
	return nil
}

// Answered says of an error that it is what the agent answered: to ask again is of no use.
// What an agent says that ends meanwhile is no answer.
func Answered(err error) bool {
	var answer *remoteError
	return errors.As(err, &answer) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}
