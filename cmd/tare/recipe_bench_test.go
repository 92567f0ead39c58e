package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tare.dev/tare/bench/ways"
	"tare.dev/tare/internal/jarfile"
	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/testkit/dockertest"
)

var recipesRaw = flag.String("bake.recipes", "", "file of the images by others' recipes so far, which are not measured again")

// recipe is how others make an image of a Spring Boot application.
type recipe struct {
	name string
	// is says in Markdown what it is, and by which document.
	is string
	// entrypoint starts the application in the folder that the image has it in; script is
	// the one that it names, or "".
	entrypoint func(classes int64, java []string) (entrypoint []string, script string)
}

// recipes are made here as their documents say. Their builders cannot be had here.
var recipes = []recipe{
	{"Spring Boot", "the Dockerfile of Spring Boot's reference (packaging, container images, Dockerfiles): the jar taken apart into layers, and a class archive of a start that ends when the context is there; on JDK 25 an AOT cache",
		func(_ int64, java []string) ([]string, string) { return java, "" }},
	{"Paketo", "the same layers and archive (`BP_JVM_CDS_ENABLED`, `BP_JVM_AOTCACHE_ENABLED`), and what the memory calculator of Paketo's libjvm chooses for the limit: 250 threads, 35 % of all classes",
		func(classes int64, java []string) ([]string, string) {
			return []string{"/application/launch"}, ways.PaketoScript(classes, java[1:]...)
		}},
}

// recipeService is the service that images are made of by recipes: one of a Compose file.
const recipeService = "shop"

// withoutDatabase has the start that makes the archive do without the database, as the
// reference says of such starts (how-to, AOT cache).
var withoutDatabase = []string{"-Dspring.context.exit=onRefresh", "-Dspring.datasource.url=jdbc:postgresql://db/postgres", "-Dspring.jpa.hibernate.ddl-auto=none",
	"-Dspring.jpa.database-platform=org.hibernate.dialect.PostgreSQLDialect", "-Dspring.jpa.properties.hibernate.boot.allow_jdbc_metadata_access=false"}

// madeImage is an image by a recipe, and the smallest limit that three fresh runs proved.
type madeImage struct {
	Recipe      string  `json:"recipe"`
	JDK         int     `json:"jdk"`
	LimitBytes  int64   `json:"limitBytes"`
	NeededBytes int64   `json:"neededBytes"`
	ReadyMillis float64 `json:"readyMillis"`
	Throughput  float64 `json:"throughput"`
	ImageBytes  int64   `json:"imageBytes"`
	Date        string  `json:"date"`
	ReadAhead   int64   `json:"read_ahead_kib"`
}

// archiveOptions make a class archive at the end of a start, and use it; with must a JVM
// that cannot use it does not start.
type archiveOptions struct{ makes, uses, must string }

func archiveOptionsOf(jdk int) archiveOptions {
	if jdk >= 25 {
		return archiveOptions{"-XX:AOTCacheOutput=app.aot", "-XX:AOTCache=app.aot", "-XX:AOTMode=on"}
	}
	return archiveOptions{"-XX:ArchiveClassesAtExit=application.jsa", "-XX:SharedArchiveFile=application.jsa", "-Xshare:on"}
}

// provedRun is a fresh run in the JSON of a fit.
type provedRun struct {
	NeededBytes             int64
	ReadyMillis, Throughput float64
}

// build makes the image of a service.
func (r recipe) build(t *testing.T, e *dockertest.Engine, s imageService, jdk int) (name string, err error) {
	t.Helper()
	files := s.imageFiles(t, jdk)
	jar, err := jarfile.Open(files["/app/app.jar"])
	if err != nil {
		return "", err
	}
	defer jar.Close()
	base, dir := fmt.Sprintf("jdk:%d", jdk), t.TempDir()
	name = fmt.Sprintf("%s-%s:%d", strings.ToLower(strings.ReplaceAll(r.name, " ", "-")), s.name, jdk)
	e.Import(t, base+"-jar", files, "ENV PATH=/jdk/bin:/bin")
	delete(files, "/app/app.jar")
	files["/bin/sh"] = "/bin/dash"
	e.Import(t, base, files, "ENV PATH=/jdk/bin:/bin")
	archive := archiveOptionsOf(jdk)
	entrypoint, script := r.entrypoint(int64(jar.Classes()), []string{"java", archive.uses, "-jar", "app.jar"})
	if script != "" {
		err = os.WriteFile(filepath.Join(dir, "launch"), []byte(script), 0o755)
	}
	text := recipeDockerfile(base, archive, script != "", entrypoint)
	if err := errors.Join(err, os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte(text), 0o644)); err != nil {
		return "", err
	}
	e.Docker(t, "build", "--tag", name, dir)
	return name, nil
}

// recipeDockerfile takes the jar apart, trains an archive of it, sees that it can be used, and
// has the entry point start it; launch says that this is a script.
func recipeDockerfile(base string, archive archiveOptions, launch bool, entrypoint []string) string {
	text := "FROM " + base + "-jar AS builder\nWORKDIR /builder\n" +
		"RUN " + words([]string{"java", "-Djarmode=tools", "-jar", "/app/app.jar", "extract", "--layers", "--destination", "extracted"}) +
		"\nFROM " + base + "\nWORKDIR /application\n"
	for _, layer := range []string{"dependencies", "spring-boot-loader", "snapshot-dependencies", "application"} {
		text += "COPY --from=builder /builder/extracted/" + layer + "/ ./\n"
	}
	for _, options := range [][]string{{archive.makes}, {archive.uses, archive.must}} {
		text += "RUN " + words(slices.Concat([]string{"java"}, options, withoutDatabase, []string{"-jar", "app.jar"})) + "\n"
	}
	if launch {
		text += "COPY launch ./\n"
	}
	return text + "USER 1000\nENTRYPOINT " + words(entrypoint) + "\n"
}

// measureRecipe makes the image, and finds the smallest limit of what it runs.
func measureRecipe(t *testing.T, e *dockertest.Engine, r recipe, jdk int) (m madeImage, err error) {
	t.Helper()
	s := bakedServices[serviceOf(recipeService)]
	name, err := r.build(t, e, s, jdk)
	if err != nil {
		return m, err
	}
	var fitted struct {
		LimitBytes    int64
		Confirmations []provedRun
	}
	args := slices.Concat([]string{"fit", "--store", "none", "--levers", "none", "--proof", "short"}, s.loadFlags(t, name), fitFlags)
	if err := s.measure(t, args, &fitted); err != nil {
		return m, err
	}
	runs := fitted.Confirmations
	if len(runs) == 0 {
		return m, errors.New("no fresh runs")
	}
	slices.SortFunc(runs, func(a, b provedRun) int { return cmp.Compare(a.Throughput, b.Throughput) })
	middle := runs[len(runs)/2]
	size, err := strconv.ParseInt(e.Docker(t, "inspect", "--format", "{{.Size}}", name), 10, 64)
	return madeImage{Recipe: r.name, JDK: jdk, LimitBytes: fitted.LimitBytes, NeededBytes: middle.NeededBytes, ReadyMillis: middle.ReadyMillis, Throughput: middle.Throughput, ImageBytes: size,
		Date: time.Now().UTC().Format(time.DateOnly), ReadAhead: runner.ReadAhead(t.TempDir()) >> 10}, err
}

// missingRecipes are the images that were not measured, of all or those of what only names.
func missingRecipes(made []madeImage, only string) (out []madeImage) {
	for _, r := range recipes {
		for _, jdk := range bakedJDKs {
			cell := fmt.Sprintf("%s:%d", recipeService, jdk)
			measured := slices.ContainsFunc(made, func(m madeImage) bool { return m.Recipe == r.name && m.JDK == jdk })
			if !measured && (only == "" || slices.Contains(strings.Split(only, ","), cell)) {
				out = append(out, madeImage{Recipe: r.name, JDK: jdk})
			}
		}
	}
	return out
}

// recipesText compares them with the image as given and the baked one.
func recipesText(made []madeImage, all []bakedService) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n## Beside others' recipes\n\nImages of %s by others' recipes, made here as their documents say, for their builders cannot be had here; the start that makes the archive has no database. "+
		"Each was fitted with `tare fit --levers none %s` under the same load: the smallest limit of what it runs that three fresh runs proved, by the same judgement, beside itself with ample memory. Needed, start and speed are of the median of these. MiB.\n\n", recipeService, strings.Join(fitFlags[:len(fitFlags)-1], " "))
	for _, r := range recipes {
		fmt.Fprintf(&b, "- %s: %s\n", r.name, r.is)
	}
	b.WriteString("\n| JDK | image | limit | needed | requests/s | ready (s) | size |\n|---:|---|---:|---:|---:|---:|---:|\n")
	for _, jdk := range bakedJDKs {
		row := func(name string, m madeImage) {
			fmt.Fprintf(&b, "| %d | %s | %d | %s | %.0f | %.2f | %d |\n", jdk, name, m.LimitBytes>>20, mibText(m.NeededBytes), m.Throughput, m.ReadyMillis/1000, m.ImageBytes>>20)
		}
		for _, s := range all {
			if s.Service == recipeService && s.JDK == jdk {
				g, n := s.Bake.Given, s.Bake.Baked
				row("as given", madeImage{LimitBytes: g.LimitBytes, NeededBytes: g.NeededBytes, Throughput: g.Throughput, ReadyMillis: g.ReadyMillis, ImageBytes: g.ImageBytes})
				row("baked", madeImage{LimitBytes: n.LimitBytes, NeededBytes: n.NeededBytes, Throughput: n.Throughput, ReadyMillis: n.ReadyMillis, ImageBytes: n.ImageBytes})
			}
		}
		for _, m := range made {
			if m.JDK == jdk {
				row(m.Recipe, m)
			}
		}
	}
	return b.String()
}
