package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tare.dev/tare/internal/plot"
	"tare.dev/tare/internal/report"
	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/testkit/dockertest"
	"tare.dev/tare/internal/testkit/jvmtest"
	"tare.dev/tare/internal/testkit/results"
)

var (
	bakeOut  = flag.String("bake.out", "", "file for the figures of baked images; without one they are not measured")
	bakeRaw  = flag.String("bake.raw", "", "file of the bakes so far, which are not made again")
	bakeNote = flag.String("bake.note", "", "what to say on the page of the cells that are measured now, such as: the machine was busy")
	bakeOnly = flag.String("bake.only", "", "measure these alone, such as shop:17,WireMock:25")
)

// bakedService is one bake that was measured.
type bakedService struct {
	Service string      `json:"service"`
	JDK     int         `json:"jdk"`
	Bake    report.Bake `json:"bake"`
	// Date is the day of the measurement, ReadAhead that of the disk that the images lie on,
	// in KiB. Note is of who measured.
	Date      string `json:"date"`
	ReadAhead int64  `json:"read_ahead_kib"`
	Note      string `json:"note,omitempty"`
}

// fitFlags are those of every fit that is measured, bakeFlags those of every bake.
var (
	fitFlags  = []string{"--cpus", "1", "--warmup", "2s", "--duration", "8s", "--confirmations", "3", "--json"}
	bakeFlags = append([]string{"--runs", "20"}, fitFlags...)
)

// imageService is an image of a JDK, its libraries and what files names, by their paths in
// the image.
type imageService struct {
	name string
	// is says in Markdown what it is, and what is asked of it.
	is    string
	files func(*testing.T) map[string]string
	// entrypoint follows java.
	entrypoint []string
	// writes are folders that the user of the image may write to.
	writes []string
	// ready and load are URLs. compose is a Compose file that has the image as $SHOP_IMAGE,
	// and as its service "web".
	ready   string
	load    []string
	compose string
}

// bakedServices are those that are measured.
var bakedServices = []imageService{
	{
		name: "sysinfo", is: "the demo service, `/sys-summary`, `/sys-stat`, `PUT /sys-stat` in turn",
		files: func(t *testing.T) map[string]string {
			return map[string]string{"/app/app.jar": jvmtest.Jar(t, "sysinfo.jar")}
		},
		entrypoint: []string{"-jar", "/app/app.jar", "--port", "8080", "--log-level", "error"},
		ready:      benchedAt + "/health", load: []string{benchedAt + "/sys-summary", benchedAt + "/sys-stat", "PUT " + benchedAt + "/sys-stat"},
	},
	{
		name: "camel", is: "Spring Boot with Tomcat and Camel, `/order`",
		files: func(t *testing.T) map[string]string {
			return map[string]string{"/app/app.jar": jvmtest.Jar(t, "camel-25.jar")}
		},
		entrypoint: []string{"-jar", "/app/app.jar"},
		ready:      benchedAt + "/health", load: []string{benchedAt + "/order"},
	},
	{
		name: "shop", is: "Spring Boot with JPA and Thymeleaf, a PostgreSQL beside it that is new for each trial (bench/services/shop/compose.yaml), `/products?page=2` and `/products/7` in turn",
		files:      cachedFiles(map[string]string{"/app/app.jar": "services/shop-postgresql.jar"}),
		entrypoint: []string{"-jar", "/app/app.jar"},
		ready:      benchedAt + "/health", load: []string{benchedAt + "/products?page=2", benchedAt + "/products/7"},
		compose: filepath.Join("bench", "services", "shop", "compose.yaml"),
	},
	{
		name: "WireMock", is: "WireMock 3.13.1, a stub and `/__admin/mappings` in turn",
		files: func(t *testing.T) map[string]string {
			files := cachedFiles(map[string]string{"/app/app.jar": "jars/wiremock-standalone-3.13.1.jar"})(t)
			files["/app/stubs"] = filepath.Join(jvmtest.Root(t), "bench", "peers", "wiremock")
			return files
		},
		entrypoint: []string{"-jar", "/app/app.jar", "--port", "8080", "--no-request-journal", "--root-dir", "/app/stubs"},
		ready:      benchedAt + "/__admin/mappings", load: []string{benchedAt + "/hello/world", benchedAt + "/__admin/mappings"},
	},
	{
		name: "Keycloak", is: "Keycloak 26.4.7, built for start with a database in memory, `/realms/master` and its `.well-known/openid-configuration` in turn",
		files: cachedFiles(map[string]string{"/app": "services/keycloak-26.4.7"}),
		entrypoint: []string{"-Dkc.home.dir=/app", "-Djava.util.logging.manager=org.jboss.logmanager.LogManager",
			"-Djava.util.concurrent.ForkJoinPool.common.threadFactory=io.quarkus.bootstrap.forkjoin.QuarkusForkJoinWorkerThreadFactory",
			"-Dpicocli.disable.closures=true", "-cp", "/app/lib/quarkus-run.jar", "io.quarkus.bootstrap.runner.QuarkusEntryPoint",
			"start", "--optimized", "--http-enabled=true", "--hostname-strict=false", "--cache=local"},
		writes: []string{"/app/data"},
		ready:  "http://127.0.0.1:9000/health/ready", load: []string{benchedAt + "/realms/master", benchedAt + "/realms/master/.well-known/openid-configuration"},
	},
}

// benchedAt is where each service listens.
const benchedAt = "http://127.0.0.1:8080"

// cachedFiles are files of the cache, by their paths in an image.
func cachedFiles(paths map[string]string) func(*testing.T) map[string]string {
	return func(t *testing.T) map[string]string {
		files := map[string]string{}
		for inside, cached := range paths {
			files[inside] = filepath.Join(jvmtest.Cache(t), filepath.FromSlash(cached))
		}
		return files
	}
}

// TestBakedServices measures images as given and baked, of each service on two JDKs. It
// takes hours, so it runs where a file for the figures is named. What was measured before
// is in the figures, and is not measured again.
func TestBakedServices(t *testing.T) {
	if *bakeOut == "" {
		t.Skip("-bake.out names no file: make bench-images does")
	}
	all, err := readLines[bakedService](*bakeRaw)
	made, madeErr := readLines[madeImage](*recipesRaw)
	if err := errors.Join(err, madeErr); err != nil {
		t.Fatal(err)
	}
	missing, unmade := missingBaked(all, *bakeOnly), missingRecipes(made, *bakeOnly)
	if len(missing)+len(unmade) > 0 {
		e := dockertest.Start(t)
		t.Setenv("DOCKER_HOST", e.Host)
		t.Setenv("PATH", filepath.Dir(buildLauncher(t))+":"+os.Getenv("PATH"))
		e.ImportPostgres(t, "postgres")
		for _, b := range missing {
			b.Date, b.Note, b.ReadAhead = time.Now().UTC().Format(time.DateOnly), *bakeNote, runner.ReadAhead(t.TempDir())>>10
			if b.Bake, err = bakeService(t, e, bakedServices[serviceOf(b.Service)], b.JDK); err != nil {
				t.Error(err) // the others are measured all the same
				continue
			}
			all = append(all, b)
			if err := appendLine(*bakeRaw, b); err != nil {
				t.Fatal(err)
			}
		}
		for _, m := range unmade {
			i := slices.IndexFunc(recipes, func(r recipe) bool { return r.name == m.Recipe })
			if m, err = measureRecipe(t, e, recipes[i], m.JDK); err != nil {
				t.Error(err)
				continue
			}
			made = append(made, m)
			if err := appendLine(*recipesRaw, m); err != nil {
				t.Fatal(err)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b bakedService) int {
		return cmp.Or(serviceOf(a.Service)-serviceOf(b.Service), a.JDK-b.JDK)
	})
	err = os.WriteFile(*bakeOut, []byte(results.Text("Images as given and baked", "make bench-images", bakedText(all)+recipesText(made, all))), 0o644)
	if err := errors.Join(err, os.WriteFile(strings.TrimSuffix(*bakeOut, ".md")+".svg", []byte(bakedPicture(all)), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// bakedPicture shows the limits of all cells.
func bakedPicture(all []bakedService) string {
	bars := plot.Bars{Title: "The smallest limit of each image, as given and baked", Desc: "Two bars for each service and JDK: the smallest limit in MiB.", Unit: "MiB",
		Names: []string{"as given", "baked"}, Tones: []plot.Tone{plot.Other, plot.Main}}
	for _, b := range all {
		bars.Groups = append(bars.Groups, plot.Group{Name: fmt.Sprintf("%s, JDK %d", b.Service, b.JDK),
			Bars: []plot.Bar{limitBar(b.Bake.Given), limitBar(b.Bake.Baked)}})
	}
	return plot.File(bars.SVG(640))
}

func limitBar(i report.BakeImage) plot.Bar {
	mib := i.LimitBytes >> 20
	return plot.Bar{Value: float64(mib), Text: fmt.Sprintf("%d MiB", mib)}
}

// missingBaked are the cells that were not measured, of all or those that only names.
func missingBaked(all []bakedService, only string) (out []bakedService) {
	for _, service := range bakedServices {
		for _, jdk := range bakedJDKs {
			cell := fmt.Sprintf("%s:%d", service.name, jdk)
			measured := slices.ContainsFunc(all, func(b bakedService) bool { return b.Service == service.name && b.JDK == jdk })
			if !measured && (only == "" || slices.Contains(strings.Split(only, ","), cell)) {
				out = append(out, bakedService{Service: service.name, JDK: jdk})
			}
		}
	}
	return out
}

// serviceOf is the number of a service.
func serviceOf(name string) int {
	for n, s := range bakedServices {
		if s.name == name {
			return n
		}
	}
	panic("no service " + name)
}

// bakedJDKs are the JDKs below the images.
var bakedJDKs = []int{17, 25}

// bakeService bakes an image of a service on a JDK.
func bakeService(t *testing.T, e *dockertest.Engine, s imageService, jdk int) (b report.Bake, err error) {
	t.Helper()
	name := s.image(jdk)
	e.Import(t, name, s.imageFiles(t, jdk), "ENV PATH=/jdk/bin:/bin", "WORKDIR /app", "USER 1000", "ENTRYPOINT "+words(append([]string{"java"}, s.entrypoint...)))
	args := append([]string{"bake", "-t", name + "-small"}, s.loadFlags(t, name)...)
	if s.compose == "" {
		args = append(args, name)
	}
	return b, s.measure(t, append(args, bakeFlags...), &b)
}

// image is the name of the image on a JDK.
func (s imageService) image(jdk int) string {
	return fmt.Sprintf("%s:%d", strings.ToLower(s.name), jdk)
}

func (s imageService) imageFiles(t *testing.T, jdk int) map[string]string {
	files := s.files(t)
	files["/jdk"] = jvmtest.Home(t, jdk)
	glibc := filepath.Join(jvmtest.Cache(t), "jdks", ".glibc") // newer JDKs in the cache name it
	files[glibc] = glibc
	return files
}

// loadFlags say what is asked of an image of the service and, where it is part of a Compose
// file, which image that is.
func (s imageService) loadFlags(t *testing.T, image string) []string {
	args := []string{"--ready", s.ready}
	if s.compose != "" {
		t.Setenv("SHOP_IMAGE", image)
		args = append(args, "--compose", filepath.Join(jvmtest.Root(t), s.compose), "--service", "web")
	}
	for _, l := range s.load {
		args = append(args, "--load", l)
	}
	for _, folder := range s.writes {
		args = append(args, "--tmpfs", folder)
	}
	return args
}

// measure runs tare, and reads the JSON that it prints.
func (s imageService) measure(t *testing.T, args []string, into any) error {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), runAsTare+"=1")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: tare %s: %w", s.name, args[0], err)
	}
	return json.Unmarshal(out.Bytes(), into)
}

// readLines reads a file of JSON lines; none where there is no such file.
func readLines[T any](file string) (all []T, err error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var one T
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, one)
	}
	return all, lines.Err()
}

// appendLine adds one.
func appendLine(file string, one any) error {
	text, err := json.Marshal(one)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	return errors.Join(err, f.Close())
}

// bakedDates says when the cells were measured, and what was noted of them then.
func bakedDates(all []bakedService) string {
	cells := map[string][]string{}
	for _, b := range all {
		when := fmt.Sprintf("%s, on a disk that reads ahead %d KiB at a time", b.Date, b.ReadAhead)
		if b.Note != "" {
			when += " (" + b.Note + ")"
		}
		cells[when] = append(cells[when], fmt.Sprintf("%s on JDK %d", b.Service, b.JDK))
	}
	var lines []string
	for _, when := range slices.Sorted(maps.Keys(cells)) {
		lines = append(lines, fmt.Sprintf("Measured on %s: %s.", when, strings.Join(cells[when], ", ")))
	}
	return strings.Join(lines, " ") + " The kernel's default is 128 KiB (`scripts/usual-disk.sh`): where a disk reads more at once, each page of an archive that is read again pushes out as much near a limit, and limits are larger."
}

// bakedText is the page.
func bakedText(all []bakedService) string {
	var b strings.Builder
	runs, slow := 0, 0
	for _, s := range all {
		runs, slow = runs+s.Bake.Runs+s.Bake.Slow, slow+s.Bake.Slow
	}
	fmt.Fprintf(&b, "Each image is of a JDK, its libraries and an application, its user is not root, and its command is java with no options that have a bearing on memory. Each was baked with `tare bake %s`: a fit with its own load at concurrency 8, then 20 fresh runs of the new image at its limit, all of which had enough memory. Of %d runs %d were slower than the objective asks of the median run (cost at most 1.1 times that as given).\n\n", strings.Join(bakeFlags[:len(bakeFlags)-1], " "), runs, slow)
	for _, s := range bakedServices {
		fmt.Fprintf(&b, "- %s: %s\n", s.name, s.is)
	}
	b.WriteString("\n" + bakedDates(all) + "\n\n")
	b.WriteString("The limit as given is the smallest that the fit saw pass, by two trials: behind it the largest that failed. Needed is without page cache: as given of one run with ample memory, baked the median of 20. Behind the archive is its size: its pages are page cache, which takes of the limit and is not in what is needed. MiB.\n\n")
	b.WriteString("| service | JDK | | limit | needed | requests/s | ready (s) | image | archive |\n|---|---:|---|---:|---:|---:|---:|---:|---|\n")
	var limits, starts []float64
	for _, s := range all {
		g, n := s.Bake.Given, s.Bake.Baked
		fails := ""
		if g.FailsBytes > 0 {
			fails = fmt.Sprintf(" (%d)", g.FailsBytes>>20)
		}
		fmt.Fprintf(&b, "| %s | %d | as given | %d%s | %s | %.0f | %.2f | %d | |\n", s.Service, s.JDK, g.LimitBytes>>20, fails, mibText(g.NeededBytes), g.Throughput, g.ReadyMillis/1000, g.ImageBytes>>20)
		archive := "none"
		if s.Bake.Archive {
			archive = "in use" + archiveSize(s.Bake)
		}
		fmt.Fprintf(&b, "| | | baked | %d | %s (%s … %s) | %.0f | %.2f | %d | %s |\n", n.LimitBytes>>20, mibText(n.NeededBytes), mibText(n.LeastNeededBytes), mibText(n.MostNeededBytes), n.Throughput, n.ReadyMillis/1000, n.ImageBytes>>20, archive)
		limits, starts = append(limits, float64(n.LimitBytes)/float64(g.LimitBytes)), append(starts, n.ReadyMillis/g.ReadyMillis)
	}
	if missing := missingBaked(all, ""); len(missing) > 0 {
		var cells []string
		for _, m := range missing {
			cells = append(cells, fmt.Sprintf("%s on JDK %d", m.Service, m.JDK))
		}
		fmt.Fprintf(&b, "\nNot measured yet: %s.\n", strings.Join(cells, ", "))
	}
	fmt.Fprintf(&b, "\n![The smallest limit of each image, as given and baked](images.svg)\n")
	fmt.Fprintf(&b, "\nBaked over as given, geometric mean: limit %.2f (at most 0.55 was wanted: %s), start %.2f (at most 0.5: %s).\n", geometric(limits), results.Reached(geometric(limits) <= 0.55), geometric(starts), results.Reached(geometric(starts) <= 0.5))
	fmt.Fprintf(&b, "\nBeyond what they need the baked images' limits have room for page cache: %s.\n", strings.Join(bakedCache(all), "; "))
	return b.String()
}

// bakedCache is how much of each limit is left for page cache, beside the archive's size.
func bakedCache(all []bakedService) (out []string) {
	for _, s := range all {
		n := s.Bake.Baked
		out = append(out, fmt.Sprintf("%s on JDK %d %d MiB, with an archive of%s MiB", s.Service, s.JDK, (n.LimitBytes-n.NeededBytes)>>20, strings.TrimPrefix(cmp.Or(archiveSize(s.Bake), ", 0"), ",")))
	}
	return out
}

// archiveSize is the size of the class archive among the layers.
func archiveSize(b report.Bake) string {
	for _, l := range b.Added {
		if strings.Contains(l.Name, "archive") || strings.Contains(l.Name, "AOT") {
			return fmt.Sprintf(", %d", l.Bytes>>20)
		}
	}
	return ""
}

func mibText(bytes int64) string { return fmt.Sprintf("%.1f", float64(bytes)/(1<<20)) }

// geometric is the geometric mean.
func geometric(ratios []float64) float64 {
	sum := 0.0
	for _, r := range ratios {
		sum += math.Log(r)
	}
	return math.Exp(sum / float64(len(ratios)))
}
