package ledger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
	"time"

	"github.com/fxamacker/cbor/v2"
)

// Version is the version of the format. A reader goes by it: fields are added
// without a new version, and readers skip those that they do not know.
const Version = 1

const (
	magic = "TARELEDG"
	// headerSize is magic, version (2 bytes), two reserved bytes, the first number
	// of the file (8 bytes) and the checksum of those.
	headerSize = 24
	// frameSize is the mark, the length (2 bytes) and the checksum (4 bytes) of the
	// length and the payload.
	frameSize  = 8
	mark       = 0xa754
	maxPayload = 1<<16 - 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrNewer says that a ledger was written by a newer tare.
var ErrNewer = errors.New("written by a newer tare")

// errHeader says that a file does not begin as a segment does.
var errHeader = errors.New("damaged header")

// appendHeader begins a segment whose records have the number first or a higher
// one.
func appendHeader(b []byte, first uint64) []byte {
	start := len(b)
	b = append(b, magic...)
	b = binary.LittleEndian.AppendUint16(b, Version)
	b = append(b, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, first)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}

// parseHeader is the first number of a segment. The error is errHeader, or an
// ErrNewer.
func parseHeader(b []byte) (first uint64, err error) {
	if len(b) < headerSize || string(b[:len(magic)]) != magic ||
		crc32.Checksum(b[:headerSize-4], castagnoli) != binary.LittleEndian.Uint32(b[headerSize-4:]) {
		return 0, errHeader
	}
	if v := binary.LittleEndian.Uint16(b[len(magic):]); v > Version {
		return 0, fmt.Errorf("format %d is %w: this one reads formats up to %d", v, ErrNewer, Version)
	}
	return binary.LittleEndian.Uint64(b[12:]), nil
}

var (
	encoding = must(cbor.EncOptions{Time: cbor.TimeUnixMicro, NilContainers: cbor.NilContainerAsNull}.EncMode())
	// decoding bounds what a damaged or made-up record can take.
	decoding = must(cbor.DecOptions{MaxNestedLevels: 8, MaxArrayElements: 1024, MaxMapPairs: 1024}.DecMode())
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err) // the options are constant
	}
	return v
}

// appendRecord appends a record with its frame.
func appendRecord(b []byte, r *Record) ([]byte, error) {
	payload, err := encoding.Marshal(r)
	if err != nil {
		return b, err
	}
	if len(payload) > maxPayload {
		return b, fmt.Errorf("a record of %d bytes is more than a ledger takes: %d", len(payload), maxPayload)
	}
	b = binary.LittleEndian.AppendUint16(b, mark)
	sized := binary.LittleEndian.AppendUint16(b, uint16(len(payload)))
	b = binary.LittleEndian.AppendUint32(sized, checksum(sized[len(sized)-2:], payload))
	return append(b, payload...), nil
}

func checksum(length, payload []byte) uint32 {
	return crc32.Update(crc32.Checksum(length, castagnoli), castagnoli, payload)
}

// frame is the payload of the frame that b begins with; false when b begins with
// no whole one.
func frame(b []byte) ([]byte, bool) {
	if len(b) < frameSize || binary.LittleEndian.Uint16(b) != mark {
		return nil, false
	}
	n := int(binary.LittleEndian.Uint16(b[2:]))
	if len(b) < frameSize+n {
		return nil, false
	}
	payload := b[frameSize : frameSize+n]
	return payload, checksum(b[2:4], payload) == binary.LittleEndian.Uint32(b[4:])
}

// Damage counts what a reader went past.
type Damage struct {
	// Places is the number of stretches without a readable record, each of at least
	// one record; Bytes is their length.
	Places int   `json:"places"`
	Bytes  int64 `json:"bytes"`
}

func (d *Damage) add(bytes int) {
	if bytes > 0 {
		d.Places++
		d.Bytes += int64(bytes)
	}
}

// decode hands the records of a segment to yield until that returns false. Where a
// growing one ends in part of a record, that is not yet written, and no damage.
func decode(b []byte, growing bool, id ID, damage *Damage, yield func(Record) bool) error {
	_, err := parseHeader(b)
	at := headerSize
	switch {
	case errors.Is(err, errHeader):
		at = 0 // records may be whole nonetheless
	case err != nil:
		return err
	}
	skipped := 0
	for at < len(b) {
		payload, ok := frame(b[at:])
		var r Record
		if !ok || decoding.Unmarshal(payload, &r) != nil {
			at++
			skipped++
			continue
		}
		damage.add(skipped)
		skipped = 0
		at += frameSize + len(payload)
		r.Process = id
		r.At = microseconds(r.At)
		if r.Start != nil {
			r.Start.Started = microseconds(r.Start.Started)
		}
		if !yield(r) {
			return nil
		}
	}
	if !growing {
		damage.add(skipped)
	}
	return nil
}

const extension = ".ledger"

// fileName is the name of a segment of a ring.
func fileName(id ID, number uint64) string {
	return fmt.Sprintf("%s.%d%s", id, number, extension)
}

// parseFileName is the ring and the number that the name of a segment has.
func parseFileName(name string) (id ID, number uint64, ok bool) {
	base, ok := strings.CutSuffix(name, extension)
	ring, digits, found := strings.Cut(base, ".")
	number, err := strconv.ParseUint(digits, 10, 64)
	if !ok || !found || err != nil {
		return id, 0, false
	}
	if id.Machine() && ring == id.String() {
		return id, number, true
	}
	// The boot id has hyphens of its own.
	i := strings.LastIndexByte(ring, '-')
	j := strings.LastIndexByte(ring[:max(i, 0)], '-')
	if j <= 0 {
		return id, 0, false
	}
	pid, err1 := strconv.Atoi(ring[j+1 : i])
	ticks, err2 := strconv.ParseUint(ring[i+1:], 10, 64)
	id = ID{Boot: ring[:j], PID: pid, StartTicks: ticks}
	return id, number, err1 == nil && err2 == nil && fileName(id, number) == name
}

// microseconds is what a record keeps of a time.
func microseconds(t time.Time) time.Time { return t.UTC().Round(time.Microsecond) }
