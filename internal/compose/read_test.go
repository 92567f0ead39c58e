package compose

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"tare.dev/tare/internal/docker"
)

// write writes a Compose file into a folder of its own.
func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "compose.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

const shop = `
name: shop
services:
  web:
    image: shop:1.4
    command: ["--port", "8080"]
    environment:
      DATABASE_URL: postgres://db/${DB:-shop}
      FROM_HERE:
      UNSET_ANYWHERE:
    ports: ["8080:8080", "0.0.0.0:9000:9001"]
    volumes: [ "./config:/config:ro", "uploads:/uploads" ]
    tmpfs: /tmp
    user: "1000"
    read_only: true
    restart: always
    deploy: { resources: { limits: { cpus: "1.5", memory: 512m } } }
    secrets: [ key ]
    depends_on:
      migrate: { condition: service_completed_successfully }
      cache: { condition: service_started }
  migrate:
    build: ./migrate
    depends_on: { db: { condition: service_healthy } }
  db:
    image: postgres:17
    container_name: shop-db
    command: postgres -c fsync=off
    volumes: [ "data:/var/lib/postgresql/data" ]
    healthcheck: { test: pg_isready, interval: 2s, retries: 3 }
    networks: { back: { aliases: [ database ] } }
    mem_limit: 256m
    cpus: 0.5
    ulimits: { nofile: { soft: 10, hard: 20 }, nproc: 7 }
    extra_hosts: { "elsewhere": "192.0.2.1" }
    x-tare: { fresh: true }
  cache:
    image: redis
    entrypoint: [ redis-server, --save, "" ]
    x-tare: { reset: redis-cli flushall }
  unused:
    image: unused
    privileged: true
volumes:
  data: { external: true, name: golden }
  uploads:
networks: { back: }
secrets: { key: { file: ./key } }
`

func TestRead(t *testing.T) {
	t.Setenv("FROM_HERE", "here")
	file := write(t, shop)
	dir := filepath.Dir(file)
	p, err := Read(t.Context(), Options{File: file, Service: "web"})
	if err != nil {
		t.Fatal(err)
	}
	a := p.App
	if a.Image != "shop:1.4" || !slices.Equal(a.Args, []string{"--port", "8080"}) || !slices.Equal(a.Env, []string{"DATABASE_URL=postgres://db/shop", "FROM_HERE=here"}) || a.CPUs != 1.5 {
		t.Errorf("%+v", a)
	}
	want := docker.Run{User: "1000", ReadOnly: true, Tmpfs: []string{"/tmp"}, Aliases: []string{"web"}, Volumes: []string{dir + "/config:/config:ro", dir + "/key:/run/secrets/key:ro"},
		Ports: []docker.Port{{HostIP: "127.0.0.1", HostPort: 8080, Container: 8080, Protocol: "tcp"}, {HostIP: "0.0.0.0", HostPort: 9000, Container: 9001, Protocol: "tcp"}}}
	if !reflect.DeepEqual(a.Run, want) || !slices.Equal(a.Mounts, []Mount{{"uploads", "/uploads", false}}) {
		t.Errorf("%+v\nwant %+v\n%+v", a.Run, want, a.Mounts)
	}
	var names []string
	of := map[string]Service{}
	for _, s := range p.Others {
		names, of[s.Name] = append(names, s.Name), s
	}
	if !slices.Equal(names, []string{"cache", "db", "migrate"}) {
		t.Errorf("order %q", names)
	}
	db := of["db"]
	if !db.Fresh || !of["migrate"].Fresh || of["cache"].Fresh || of["cache"].Reset != "redis-cli flushall" {
		t.Errorf("%+v", of)
	}
	if !slices.Equal(db.Spec.Cmd, []string{"postgres", "-c", "fsync=off"}) || db.Spec.Entrypoint != nil || !slices.Equal(db.Spec.Run.Aliases, []string{"db", "shop-db", "database"}) ||
		db.Spec.MemoryBytes != 256<<20 || db.Spec.QuotaMicros != 50000 || db.Spec.PeriodMicros != 100000 {
		t.Errorf("%+v", db.Spec)
	}
	if h := db.Spec.Service.Healthcheck; h == nil || !slices.Equal(h.Test, []string{"CMD-SHELL", "pg_isready"}) || h.Interval != 2*time.Second || h.Retries != 3 {
		t.Errorf("%+v", h)
	}
	if h := db.Spec.Service.Host; !slices.Equal(h.Ulimits, []docker.Ulimit{{Name: "nofile", Soft: 10, Hard: 20}, {Name: "nproc", Soft: 7, Hard: 7}}) || !slices.Equal(h.ExtraHosts, []string{"elsewhere:192.0.2.1"}) {
		t.Errorf("%+v", h)
	}
	if m := of["migrate"]; m.Spec.Image != "shop-migrate" || m.After["db"] != healthy || p.App.After["migrate"] != completed {
		t.Errorf("%+v", m)
	}
	if p.Volumes["data"].External != "golden" || p.Volumes["uploads"].External != "" {
		t.Errorf("%+v", p.Volumes)
	}

	// Flags go before the file, and another project has another digest.
	q, err := Read(t.Context(), Options{File: file, Service: "web", Fresh: []string{"cache"}, Resets: []string{"db: psql -c 'TRUNCATE a'"}})
	if err != nil {
		t.Fatal(err)
	}
	if !q.Others[0].Fresh || q.Others[1].Reset != "psql -c 'TRUNCATE a'" || q.Digest() == p.Digest() {
		t.Errorf("%+v", q.Others)
	}
}

// What cannot be done is named, with the service and its key.
func TestReadRefuses(t *testing.T) {
	const web = "services: { web: { image: a, depends_on: [ db ] }, db: { image: b } }"
	key := func(service, key string) string {
		return strings.Replace(web, service+": { image", service+": { "+key+", image", 1)
	}
	for _, c := range []struct{ name, text, want string }{
		{"no YAML", "services: [", "--compose"},
		{"unknown key", key("web", "colour: red"), "colour"},
		{"no such service", "services: { a: { image: a } }", `has no service "web": it has a`},
		{"missing dependency", "services: { web: { image: a, depends_on: [ db ] } }", "depends on undefined service"},
		{"circle", "services: { web: { image: a, depends_on: [ db ] }, db: { image: b, depends_on: [ web ] } }", "cycle"},
		{"privileged", key("db", "privileged: true"), "service db: privileged: cannot be done here"},
		{"network_mode", key("db", "network_mode: host"), "service db: network_mode: cannot be done here: leave it out"},
		{"entrypoint", key("web", "entrypoint: java"), "service web: entrypoint: cannot be done here: put it into the image"},
		{"empty entrypoint", key("web", "entrypoint: []"), "service web: entrypoint"},
		{"devices", key("db", "devices: [ /dev/a ]"), "service db: devices"},
		{"replicas", key("db", "scale: 2"), "service db: 2 replicas"},
		{"port", key("web", "ports: [ 80 ]"), "service web: ports: 80 has no port of this machine"},
		{"volume without name", key("db", "volumes: [ /data ]"), "service db: volumes: /data"},
		{"driver", key("db", "volumes: [ 'vol:/data' ]") + "\nvolumes: { vol: { driver: nfs } }", "service db: volume vol: driver"},
		{"secret", key("db", "secrets: [ s ]") + "\nsecrets: { s: { environment: S } }", "service db: secret s"},
		{"extension", key("db", "x-tare: { fresh: maybe }"), "service db: x-tare.fresh: give"},
		{"unknown extension", key("db", "x-tare: { frsh: true }"), "x-tare.frsh"},
		{"extension of another kind", key("db", "x-tare: fresh"), "service db: x-tare: give fresh"},
		{"reset of itself", key("web", "x-tare: { reset: a }"), "reset is for the services beside it"},
		{"shared volume", "services: { web: { image: a, depends_on: [ db ], volumes: [ 'vol:/v' ] }, db: { image: b, volumes: [ 'vol:/v' ], x-tare: { fresh: true } } }\nvolumes: { vol: }", "volume vol: web shares it"},
	} {
		if p, err := Read(t.Context(), Options{File: write(t, c.text), Service: "web"}); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %+v, %v, want %q", c.name, p, err, c.want)
		}
	}
	file := write(t, web)
	for want, o := range map[string]Options{
		`--fresh "x"`:                    {Fresh: []string{"x"}},
		"write it as SERVICE: COMMAND":   {Resets: []string{"db"}},
		`depends on no service "web"`:    {Resets: []string{"web: x"}},
		`depends on no service "nobody"`: {Resets: []string{"nobody: x"}},
	} {
		o.File, o.Service = file, "web"
		if _, err := Read(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
	for _, name := range []string{"/no/such/file", t.TempDir()} {
		if _, err := Read(t.Context(), Options{File: name, Service: "web"}); err == nil || !strings.Contains(err.Error(), "--compose") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Whatever a file holds, it is read or refused.
func FuzzRead(f *testing.F) {
	f.Add(shop, "web")
	f.Add("services: { web: { image: a, depends_on: [ db ] }, db: { image: b } }", "db")
	f.Fuzz(func(t *testing.T, text, service string) {
		if strings.Contains(text, "include") || strings.Contains(text, "extends") || strings.Contains(text, "env_file") || strings.Contains(text, "label_file") {
			return // names files of this machine
		}
		p, err := Read(t.Context(), Options{File: write(t, text), Service: service})
		if err != nil {
			return
		}
		seen := map[string]bool{}
		for _, s := range p.Others {
			for dep := range s.After {
				if !seen[dep] {
					t.Errorf("%s is started before %s, which it depends on", s.Name, dep)
				}
			}
			for _, m := range s.Mounts {
				if _, ok := p.Volumes[m.Volume]; !ok {
					t.Errorf("%s has volume %s, which is not made", s.Name, m.Volume)
				}
			}
			seen[s.Name] = true
		}
	})
}
