package dockertest

import (
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"testing"
)

// startPostgres makes a database where there is none, and becomes the server.
const startPostgres = `[ -s /data/PG_VERSION ] || initdb -D /data -U tare --auth trust --encoding UTF8 --no-locale --no-sync >/dev/null || exit 1
exec postgres -D /data -k /tmp -c listen_addresses='*' -c fsync=off -c shared_buffers=16MB -c max_connections=40 -c hba_file=/etc/pg_hba.conf`

// ImportPostgres makes an image of this machine's PostgreSQL. As the official image it
// makes its database in a volume when it starts, /data; anyone may enter as tare. It
// has a health check of its own, and psql.
func (e *Engine) ImportPostgres(t testing.TB, name string) {
	t.Helper()
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		t.Fatal("no PostgreSQL server in /usr/lib/postgresql/*/bin: run scripts/setup.sh test")
	}
	bin := filepath.Dir(found[0])
	version := filepath.Base(filepath.Dir(bin))
	data, hba := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "pg_hba.conf")
	u, err := user.Lookup("postgres")
	if err != nil {
		t.Fatal(err)
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid) // numbers on Linux
	for _, err := range []error{os.Mkdir(data, 0o700), os.Chown(data, uid, gid), os.WriteFile(hba, []byte("local all all trust\nhost all all all trust\n"), 0o644)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	e.Import(t, name, map[string]string{filepath.Dir(bin): filepath.Dir(bin), "/usr/share/postgresql/" + version: "/usr/share/postgresql/" + version,
		"/bin/sh": "/bin/dash", "/etc/passwd": "/etc/passwd", "/etc/pg_hba.conf": hba, "/data": data},
		"ENV PATH="+bin+":/bin", "USER postgres", "VOLUME /data", "HEALTHCHECK --interval=1s --retries=60 CMD pg_isready -q -h 127.0.0.1", `ENTRYPOINT ["/bin/sh","-c"]`, "CMD "+jsonWords(startPostgres))
}

func jsonWords(word string) string { return `[` + strconv.Quote(word) + `]` }
