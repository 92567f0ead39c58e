package fit

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"tare.dev/tare/internal/docker"
	"tare.dev/tare/internal/jvmopts"
	"tare.dev/tare/internal/profile"
	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/testkit/dockertest"
	"tare.dev/tare/internal/testkit/jvmtest"
	"tare.dev/tare/internal/trial"
)

// A container of the Docker runner begins with this program.
func TestMain(m *testing.M) {
	runner.Gate(os.Args)
	os.Exit(m.Run())
}

// A training run in a container makes an archive that the JDK of the image then
// uses, whoever the image's user is; nothing else of it is left.
func TestTrainInImage(t *testing.T) {
	e := dockertest.Start(t)
	engine, err := docker.NewEngine(e.Host)
	if err != nil {
		t.Fatal(err)
	}
	for major, option := range map[int]string{17: "-XX:ArchiveClassesAtExit={archive}", 25: "-XX:AOTCacheOutput={archive}"} {
		t.Run(strconv.Itoa(major), func(t *testing.T) {
			glibc := filepath.Join(jvmtest.Cache(t), "jdks", ".glibc") // newer JDKs in the cache name it
			e.Import(t, "shop", map[string]string{"/jdk": jvmtest.Home(t, major), glibc: glibc, "/app/sysinfo.jar": jvmtest.Jar(t, "sysinfo.jar")}, "USER 1234:5678")
			d, err := runner.NewDocker(t.Context(), runner.DockerOptions{Engine: engine, Image: "shop"})
			if err != nil {
				t.Fatal(err)
			}
			c := trainingConfig(t, d)
			file, err := (&trier{config: c}).Train(t.Context(), Attempt{Setup: Setup{Options: []string{"-Xmx64m", "-XX:+UseSerialGC"}}, LimitBytes: c.AmpleBytes}, option)
			if err != nil || filepath.Dir(file) != runner.InImage {
				t.Fatal(file, err)
			}
			st, err := os.Lstat(c.outside(file))
			if err != nil || st.Mode() != 0o644 || st.Size() < 1<<20 {
				t.Errorf("%v, %v", st, err)
			}
			if _, err := profile.DescribeArchive(c.outside(file)); err != nil {
				t.Error(err)
			}
			if entries, err := os.ReadDir(c.ArchiveDir); err != nil || len(entries) != 2 { // its mark
				t.Errorf("%v, %v", entries, err)
			}
			if said := startsWithArchive(t, d, c, file); said != "" {
				t.Error(said)
			}
		})
	}
}

// trainingConfig is a fit of the demo service in an image.
func trainingConfig(t *testing.T, d *runner.Docker) Config {
	t.Helper()
	d.RunAs(1234, 5678)
	a, err := d.MakeArchives(t.Context(), t.TempDir()) // the parents need not be open to the image's user
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	command, err := jvmopts.Parse([]string{"java", "-jar", "/app/sysinfo.jar", "--port", strconv.Itoa(jvmtest.FreePort(t))})
	if err != nil {
		t.Fatal(err)
	}
	ready, err := trial.ParseReady("log:listening on")
	if err != nil {
		t.Fatal(err)
	}
	c := Config{Runner: d, Command: command, Java: Java{Path: "/jdk/bin/java", Home: "/jdk"}, Image: &Image{Name: "shop"}, Dir: "/",
		Ready: ready, ReadyTimeout: time.Minute, Duration: 100 * time.Millisecond, AmpleBytes: 512 << 20}
	c.UseArchives(a)
	return c
}

// startsWithArchive says what is wrong with a start that needs the archive.
func startsWithArchive(t *testing.T, d *runner.Docker, c Config, file string) string {
	t.Helper()
	options := []string{"-XX:SharedArchiveFile=" + file, "-Xshare:on"}
	if strings.HasSuffix(file, ".aot") {
		options = []string{"-XX:AOTCache=" + file, "-XX:AOTMode=on"}
	}
	tr := trier{config: c}
	spec, err := tr.spec(t.Context(), Setup{Options: append(options, "-Xmx64m", "-XX:+UseSerialGC")}, c.AmpleBytes, false)
	if err != nil {
		t.Fatal(err)
	}
	r, err := trial.Run(t.Context(), d, spec)
	if err != nil {
		t.Fatal(err)
	}
	if r.ReadyAfter == 0 {
		return strings.Join(r.Log, "\n")
	}
	return ""
}
