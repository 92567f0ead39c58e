package footprint_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/testkit/jvmtest"
)

// mapsTwice maps the first 8 MiB of a file, and 8 MiB from 2 MiB on, and touches both. It keeps
// 16 MiB through collections.
const mapsTwice = `import java.nio.channels.FileChannel;
import java.nio.file.*;

public class Twice {
	static final byte[][] kept = new byte[16][1 << 20];

	public static void main(String[] args) throws Exception {
		for (int i = 0; i < 4; i++) {
			System.gc();
			for (byte[] b : kept) {
				java.util.Arrays.fill(b, (byte) i);
			}
		}
		try (FileChannel f = FileChannel.open(Path.of(args[0]), StandardOpenOption.READ)) {
			var all = f.map(FileChannel.MapMode.READ_ONLY, 0, 8 << 20).load();
			var again = f.map(FileChannel.MapMode.READ_ONLY, 2 << 20, 8 << 20).load();
			System.out.println("ready " + (all.get(0) + again.get(0)));
			Thread.sleep(600_000);
		}
	}
}`

// Of a file that is mapped twice, what lies in both mappings is there once; so is the heap of
// ZGC, which before its generations is mapped three times.
func TestRepeated(t *testing.T) {
	dir := t.TempDir()
	source, data := filepath.Join(dir, "Twice.java"), filepath.Join(dir, "data")
	if err := os.WriteFile(source, []byte(mapsTwice), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(data, make([]byte, 10<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	const most = 256 << 10 // where kinds are not told, a page in which two parts of a library meet counts
	for _, c := range []struct {
		collector string
		major     int
		leastHeap int64
	}{{"Serial", 17, 0}, {"Z", 17, 12 << 20}, {"Z", 25, 0}} {
		t.Run(fmt.Sprintf("%s of JDK %d", c.collector+"GC", c.major), func(t *testing.T) {
			p := jvmtest.Start(t, jvmtest.Java(t, c.major), "-Xmx64m", "-XX:+Use"+c.collector+"GC", source, data)
			p.Await(t, "ready")
			for name, options := range map[string]footprint.Options{"by itself": {}, "gently": {Gentle: true}, "one of a series": {Series: &footprint.Series{}}} {
				f, err := footprint.Weigh(t.Context(), p.PID(), options)
				if err != nil {
					t.Fatal(err)
				}
				checkSum(t, f)
				files, heap := row(t, f, footprint.MappedFiles), row(t, f, footprint.JavaHeap)
				if got := files.RepeatedBytes - 6<<20; got < 0 || got > most {
					t.Errorf("%s: %d bytes of files are counted again", name, files.RepeatedBytes)
				}
				if heap.RepeatedBytes < c.leastHeap || c.leastHeap == 0 && heap.RepeatedBytes > 0 {
					t.Errorf("%s: of %d bytes of heap %d are counted again", name, heap.ResidentBytes, heap.RepeatedBytes)
				}
				t.Log(name, f.RSSBytes, f.PSSBytes, files.RepeatedBytes, heap.ResidentBytes, heap.RepeatedBytes)
			}
		})
	}
}
