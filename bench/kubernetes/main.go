// Command kubernetes measures tare in a real cluster of one node, which it starts: fits
// there and on this machine, interruptions of fits, verdicts on pods that ended, and what
// the agent takes on a node of many pods. It goes on where it stopped.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"tare.dev/tare/internal/records"
	"tare.dev/tare/internal/testkit/cluster"
	"tare.dev/tare/internal/testkit/results"
)

// raw keeps what was measured, one thing a line.
const raw = "docs/results/raw/kubernetes.jsonl"

// record is one thing that was measured; one of the pointers is set.
type record struct {
	At      time.Time `json:"at"`
	Machine string    `json:"machine"`
	// Load is the load average of the machine over a minute, at the end.
	Load         string        `json:"load"`
	Fit          *fitRun       `json:"fit,omitempty"`
	Kill         *kill         `json:"kill,omitempty"`
	Pods         *podsRun      `json:"pods,omitempty"`
	Interruption *interruption `json:"interruption,omitempty"`
	Left         *left         `json:"left,omitempty"`
	Swept        *swept        `json:"swept,omitempty"`
}

type options struct {
	cache         string
	only          string
	fits          int // of each runner
	kills         int // the most that are made now
	pods          int
	watched       time.Duration
	interruptions int
	now           int // the most interruptions, or fits, that are made now
	seed          uint64
}

// jdk is that of all JVMs but those of fits.
const jdk = "25"

// javaHome is where the image has a JDK.
func javaHome(version string) string { return "/jdk-" + version }

// launcher is java of jdk in the image.
const launcher = "/jdk-" + jdk + "/bin/java"

const (
	agentImage = "docker.io/tare/tare:bench"
	appImage   = "docker.io/tare/java:25"
)

func main() {
	var o options
	flag.StringVar(&o.cache, "cache", os.Getenv("TARE_CACHE"), "`folder` that holds jdks")
	flag.StringVar(&o.only, "only", "", "some of fit,interruptions,kills,pods alone, or page, which measures nothing")
	flag.IntVar(&o.fits, "fits", 3, "fits of each service and JDK on each of the two runners")
	flag.IntVar(&o.kills, "kills", len(cells()), "the most kills that are made now")
	flag.IntVar(&o.pods, "pods", 100, "pods on the node")
	flag.DurationVar(&o.watched, "watched", 5*time.Minute, "how long the agent is watched when all pods run")
	flag.IntVar(&o.interruptions, "interruptions", 20, "interruptions of fits")
	flag.IntVar(&o.now, "now", 1000, "the most fits and interruptions that are made now")
	flag.Uint64Var(&o.seed, "seed", 1, "decides on the moments of interruptions")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// mode is something that can be measured alone.
type mode struct {
	name string
	// left says whether something is left to be measured.
	left    func(*bench) bool
	measure func(*bench, context.Context) error
}

// modes are all, in the order in which they are measured.
var modes = []mode{
	{"fit", (*bench).fitsLeft, (*bench).fits},
	{"interruptions", (*bench).interruptionsLeft, (*bench).interruptions},
	{"kills", (*bench).killsLeft, (*bench).kills},
	{"pods", (*bench).podsLeft, (*bench).pods},
}

// bench is what was measured, and the cluster that it is measured in.
type bench struct {
	o options
	*cluster.Cluster
	dir   string // of one mode, for stores and the ledger
	rests rests

	mu   sync.Mutex
	kept *records.File
	all  []record
}

func run(ctx context.Context, o options) (err error) {
	wanted := modes
	if o.only != "" {
		wanted = nil
		for name := range strings.SplitSeq(o.only, ",") {
			i := slices.IndexFunc(modes, func(m mode) bool { return m.name == name })
			if i < 0 && name != "page" {
				return fmt.Errorf("-only %q: give some of fit, interruptions, kills and pods, or page", o.only)
			}
			if i >= 0 {
				wanted = append(wanted, modes[i])
			}
		}
	}
	b := &bench{o: o}
	if b.kept, err = records.Open(raw, records.Into(func(r record) { b.all = append(b.all, r) })); err != nil {
		return err
	}
	defer b.kept.Close()
	if wanted = slices.DeleteFunc(slices.Clone(wanted), func(m mode) bool { return !m.left(b) }); len(wanted) > 0 {
		err = b.inCluster(ctx, wanted)
	}
	return errors.Join(err, results.Write("kubernetes", "Trials and agents in a Kubernetes cluster", "make bench-kubernetes", page(b.all, b.o)))
}

// inCluster starts a cluster and measures there. What fails in one mode keeps no other
// from being measured.
func (b *bench) inCluster(ctx context.Context, wanted []mode) (err error) {
	if b.dir, err = os.MkdirTemp("", "tare-bench-kubernetes-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	programs := map[string]string{"/workloads.jar": "bin/workloads.jar", "/bin/sh": "/bin/dash"}
	for _, c := range fitCells {
		s := services[c.Service]
		programs[javaHome(c.JDK)] = filepath.Join(b.o.cache, "jdks", c.JDK)
		programs[s.inImage] = s.here(b.o.cache)
		if s.files != "" {
			programs["/"+s.files] = s.files
		}
	}
	// A newer JDK names the glibc that it was given in the cache (scripts/jdks.sh).
	for _, cache := range []func(string) (string, error){filepath.Abs, filepath.EvalSymlinks} {
		jdks, err := cache(filepath.Join(b.o.cache, "jdks"))
		if err != nil {
			return err
		}
		if glibc := filepath.Join(jdks, ".glibc"); isFolder(glibc) {
			programs[glibc] = glibc
		}
	}
	for _, name := range []string{"tail", "mkfifo", "sleep", "head"} {
		programs["/usr/bin/"+name] = "/usr/bin/" + name
	}
	b.Cluster, err = cluster.Open(".", cluster.Image{Name: agentImage, Entrypoint: []string{"/usr/bin/tare"}, Files: map[string]string{"/usr/bin/tare": "bin/tare"}},
		cluster.Image{Name: appImage, Files: programs})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	for _, m := range wanted {
		if failed := m.measure(b, ctx); failed != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", m.name, failed))
		}
	}
	return err
}

func isFolder(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// keep keeps what was measured.
func (b *bench) keep(r record) error {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	r.At, r.Machine, r.Load = time.Now().UTC(), results.Machine(), strings.Fields(string(text))[0]
	b.all = append(b.all, r)
	return b.kept.Append(r)
}

// tare runs bin/tare as the cluster's administrator.
func (b *bench) tare(ctx context.Context, out any, args ...string) error {
	cmd := exec.CommandContext(ctx, "bin/tare", args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+b.Kubeconfig)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	text, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("tare %s: %w: %s", strings.Join(args, " "), err, &errs)
	}
	return json.Unmarshal(text, out)
}

// until asks each second until the answer is yes, for as long as limit.
func until(ctx context.Context, limit time.Duration, what string, yes func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		ok, err := yes()
		if err == nil && ok {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("not within %s: %s", limit, what), err)
		}
	}
}
