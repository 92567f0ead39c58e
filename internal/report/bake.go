package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"tare.dev/tare/internal/document"
	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/shell"
)

// BakeSchema names the JSON form of a Bake. Fields may be added; none changes its
// meaning.
const BakeSchema = "tare.bake/1"

// Bake is an image that was made of another, and what both need. Sizes are bytes.
type Bake struct {
	Schema string    `json:"schema"`
	Given  BakeImage `json:"given"`
	Baked  BakeImage `json:"baked"`
	// Runs is how many fresh runs of the baked image passed, which is all but Slow: those
	// were slower than a share of the image as given, and not for want of memory. They are
	// fewer than half.
	Runs int `json:"runs"`
	Slow int `json:"slow,omitempty"`
	// Added are the layers.
	Added []BakeLayer `json:"added"`
	// Archive says that there is a class archive, and ArchiveUsed that the JVM of each
	// run used it; nil where that could not be seen.
	Archive     bool  `json:"archive"`
	ArchiveUsed *bool `json:"archiveUsed"`
	// ByVariable says that the options are in JAVA_TOOL_OPTIONS of the image.
	ByVariable bool `json:"byVariable"`
	// Written is where the image went.
	Written []string `json:"written"`
}

// BakeImage is one of the two images.
type BakeImage struct {
	Name string `json:"name"`
	ID   string `json:"id"`
	// LimitBytes is the smallest limit that the fit proved, of the image as given the
	// smallest that it found; 0 is none.
	LimitBytes int64 `json:"limitBytes"`
	// FailsBytes is the largest limit that failed as given; 0 is none.
	FailsBytes int64 `json:"failsBytes,omitempty"`
	// NeededBytes, ReadyMillis and Throughput are medians of the runs made by tare
	// bake: of the image as given one, with ample memory.
	NeededBytes int64 `json:"neededBytes"`
	// LeastNeededBytes and MostNeededBytes are those of all runs.
	LeastNeededBytes int64   `json:"leastNeededBytes"`
	MostNeededBytes  int64   `json:"mostNeededBytes"`
	ReadyMillis      float64 `json:"readyMillis"`
	Throughput       float64 `json:"throughput"`
	ImageBytes       int64   `json:"imageBytes"`
}

// BakeLayer is a layer that was added.
type BakeLayer struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

// NewBakeImage is an image by its runs, of which there is one at least: start and speed are of that of median speed.
func NewBakeImage(name, id string, limit int64, runs []fit.Trial) BakeImage {
	t := fit.Median(runs)
	needed := sortedNeeded(runs)
	return BakeImage{Name: name, ID: id, LimitBytes: limit, NeededBytes: needed[len(needed)/2], LeastNeededBytes: needed[0], MostNeededBytes: needed[len(needed)-1], ReadyMillis: millis(max(t.Measured.Start, t.Measured.Time)), Throughput: t.Throughput}
}

// sortedNeeded is what runs needed, the least first.
func sortedNeeded(runs []fit.Trial) []int64 {
	all := make([]int64, 0, len(runs))
	for _, t := range runs {
		all = append(all, t.NeededBytes)
	}
	slices.Sort(all)
	return all
}

// BakeDocument tells of a baked image.
func BakeDocument(b Bake) *document.Document {
	d := &document.Document{}
	runs := fmt.Sprintf("%d of %d fresh runs pass", b.Runs, b.Runs+b.Slow)
	if b.Slow > 0 {
		runs += fmt.Sprintf(", %d had enough memory and missed the speed", b.Slow)
	}
	if b.ArchiveUsed != nil {
		runs += ", and use the class archive"
	}
	d.Add(document.Paragraph{Role: document.Lead, Text: document.Plain(fmt.Sprintf("%s is enough for %s: %s.", Limit(b.Baked.LimitBytes), b.Baked.Name, runs))})
	t := document.Table{Columns: document.Columns("image", ">limit", ">needed", ">req/s", ">ready", ">size")}
	for _, i := range []BakeImage{b.Given, b.Baked} {
		t.Rows = append(t.Rows, document.Row{Cells: i.cells()})
	}
	d.Add(t)
	var added []document.Text
	for _, l := range b.Added {
		added = append(added, document.Plain(fmt.Sprintf("%s, %s", l.Name, Size(l.Bytes))))
	}
	d.Add(heading("Layers added"), document.List{Items: added})
	for _, note := range b.notes() {
		d.Add(document.Paragraph{Role: document.Note, Text: document.Prose(note)})
	}
	m := fmt.Sprintf("%dm", b.Baked.LimitBytes/MiB)
	d.Add(heading("Next"), document.Code{Text: shell.Words([]string{"docker", "run", "-m", m, "--memory-swap", m, b.Baked.Name})})
	return d
}

// notes are the price.
func (b Bake) notes() []string {
	var out []string
	if b.Archive && b.ArchiveUsed == nil {
		out = append(out, "Whether the JVM uses the class archive could not be seen: it could not be weighed.")
	}
	if b.Archive {
		out = append(out, "The class archive holds for this JDK and these jars alone: bake again for another build or JDK.")
	}
	if b.ByVariable {
		out = append(out, "The image's command is not java's, so the options are in `JAVA_TOOL_OPTIONS`: every JVM in its containers has them, and whoever sets the variable replaces them.")
	}
	return out
}

func (i BakeImage) cells() []document.Cell {
	limit, speed := "-", "-"
	if i.LimitBytes > 0 {
		limit = Limit(i.LimitBytes)
	}
	if i.Throughput > 0 {
		speed = fmt.Sprintf("%.0f", i.Throughput)
	}
	var cells []document.Cell
	for _, text := range []string{strings.TrimSpace(i.Name), limit, Size(i.NeededBytes), speed, Duration(time.Duration(i.ReadyMillis * float64(time.Millisecond))), Size(i.ImageBytes)} {
		cells = append(cells, document.Cell{Text: document.Plain(text)})
	}
	return cells
}
