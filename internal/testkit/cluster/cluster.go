// Package cluster runs a real Kubernetes of one node, or two (AddNode), for tests: etcd, API server,
// controller manager and scheduler in one process, and a kubelet with containerd and
// runc in PID and mount namespaces of their own. Everything listens on the loopback,
// at ports that were free. There are no Services, no DNS and no registry: images are
// those of Options.
//
// What it is made of is in the cache (scripts/kubernetes.sh); without that, tests that
// ask for a cluster are skipped, by name.
package cluster

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tare.dev/tare/internal/deathsig"
	"tare.dev/tare/internal/testkit/alone"
	"tare.dev/tare/internal/testkit/jvmtest"
	"tare.dev/tare/internal/testkit/polltest"
)

// Cluster is a cluster that runs until the test ends.
type Cluster struct {
	// Kubeconfig is a file with the rights of an administrator.
	Kubeconfig string
	// Node is the name of the only node.
	Node string

	dir     string
	program string // of control plane and node
	cgroup  string
	plane   *exec.Cmd
	node    *exec.Cmd
	lock    *os.File
	ports   ports
	made    string // what scripts/kubernetes.sh made
	images  []Image
	subnet  string
	second  *Cluster // the other node, its parts alone
}

type ports struct{ api, etcd, peer, kubelet int }

const (
	prefix    = "tare-cluster-"
	startTime = 2 * time.Minute
	endTime   = 30 * time.Second
)

// Start starts a cluster that has the images. It ends with the test; what is left when
// the test was killed goes with the next Start.
func Start(t testing.TB, images ...Image) *Cluster {
	t.Helper()
	alone.Uses(t, "a Kubernetes cluster")
	c, err := Open(jvmtest.Root(t), images...)
	if errors.Is(err, ErrNone) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.logs())
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// ErrNone says that there can be no cluster here.
var ErrNone = errors.New("no Kubernetes here")

// Open starts a cluster that has the images; root is the folder of the tree. Close ends
// it, and so does the end of this process; what is left then goes with the next Open. The
// error is ErrNone where scripts/kubernetes.sh has not made what it is of.
func Open(root string, images ...Image) (*Cluster, error) {
	made, err := madeBefore(root)
	if err != nil {
		return nil, err
	}
	if err := sweep(); err != nil {
		return nil, fmt.Errorf("what an earlier cluster left: %w", err)
	}
	c := &Cluster{Node: "localhost"}
	if err := c.start(made, images); err != nil {
		return nil, errors.Join(fmt.Errorf("cluster: %w%s", err, c.logs()), c.Close())
	}
	return c, nil
}

// madeBefore is the folder that scripts/kubernetes.sh made.
func madeBefore(root string) (string, error) {
	if os.Geteuid() != 0 {
		return "", fmt.Errorf("%w: a cluster needs root", ErrNone)
	}
	out, err := exec.Command(filepath.Join(root, "scripts", "kubernetes.sh"), "--where").Output()
	if err != nil {
		return "", fmt.Errorf("scripts/kubernetes.sh --where: %w", err)
	}
	dir := strings.TrimSpace(string(out))
	if _, err := os.Stat(filepath.Join(dir, "onenode")); err != nil {
		return "", fmt.Errorf("%w in the cache: scripts/kubernetes.sh builds it once, in a quarter of an hour (make test does not)", ErrNone)
	}
	return dir, nil
}

func (c *Cluster) start(made string, images []Image) (err error) {
	if c.dir, err = os.MkdirTemp("", prefix); err != nil {
		return err
	}
	c.cgroup = filepath.Base(c.dir)
	if c.lock, err = lockDir(c.dir); err != nil || c.lock == nil {
		return errors.Join(errors.New("a new folder cannot be locked"), err)
	}
	c.Kubeconfig = filepath.Join(c.dir, "pki", "admin.kubeconfig")
	if c.ports, err = freePorts(); err != nil {
		return err
	}
	if err := c.prepare(made, images); err != nil {
		return err
	}
	c.program, c.made, c.images = filepath.Join(made, "onenode"), made, images
	if err := c.startControlPlane(); err != nil {
		return err
	}
	if err := c.startNode(); err != nil {
		return err
	}
	return c.await()
}

func (c *Cluster) startNode() (err error) {
	c.node, err = c.run("node.log", syscall.CLONE_NEWNS|syscall.CLONE_NEWPID, c.program, "node", "-dir", c.dir, "-cgroup-root", "/"+c.cgroup, "-port", strconv.Itoa(c.ports.kubelet), "-name", c.Node)
	return err
}

// SecondNode is the name of the node that AddNode adds. The API server reaches a kubelet by
// the name of its node, and this one leads to the loopback, too.
const SecondNode = "127.0.0.1"

// AddNode adds a node with the images of the first. It has the rights of an administrator.
func (c *Cluster) AddNode(t testing.TB) {
	t.Helper()
	if err := c.addNode(); err != nil {
		t.Fatal(fmt.Errorf("second node: %w", err))
	}
}

func (c *Cluster) addNode() (err error) {
	n := &Cluster{Kubeconfig: c.Kubeconfig, Node: SecondNode, dir: filepath.Join(c.dir, "second"), program: c.program, cgroup: filepath.Join(c.cgroup, "second"), plane: c.plane, subnet: c.subnet}
	c.second = n
	if n.ports, err = freePorts(); err != nil {
		return err
	}
	pki := filepath.Join(n.dir, "pki")
	if err := os.MkdirAll(pki, 0o755); err != nil {
		return err
	}
	for from, to := range map[string]string{"admin.kubeconfig": "kubelet.kubeconfig", "kubelet-server.crt": "", "kubelet-server.key": "", "ca.crt": ""} {
		text, err := os.ReadFile(filepath.Join(c.dir, "pki", from))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(pki, cmp.Or(to, from)), text, 0o600); err != nil {
			return err
		}
	}
	if err := errors.Join(n.prepare(c.made, c.images), os.WriteFile(filepath.Join(n.dir, "ready"), nil, 0o600)); err != nil {
		return err
	}
	if err := n.startNode(); err != nil {
		return err
	}
	return n.await()
}

func (c *Cluster) startControlPlane() (err error) {
	c.plane, err = c.run("control-plane.log", 0, c.program, "control-plane", "-dir", c.dir, "-port", strconv.Itoa(c.ports.api),
		"-etcd", strconv.Itoa(c.ports.etcd), "-peer", strconv.Itoa(c.ports.peer))
	return err
}

// KillControlPlane kills the API server, its database, and the controllers (SIGKILL), and
// starts them again after some time. It returns when the API server answers; the node and
// its pods go on meanwhile.
func (c *Cluster) KillControlPlane(ctx context.Context, away time.Duration) error {
	_ = c.plane.Process.Kill() // it may have ended
	_ = c.plane.Wait()
	select {
	case <-time.After(away):
	case <-ctx.Done():
	}
	if err := c.startControlPlane(); err != nil {
		return err
	}
	return c.await()
}

// Processes are the ids, on this machine, of the processes of a pod by its UID, and where
// a container's id is given, of that one alone. A group that is gone has none.
func (c *Cluster) Processes(podUID, container string) ([]int, error) {
	var all []int
	for _, class := range []string{"", "burstable", "besteffort"} {
		top := filepath.Join("/sys/fs/cgroup/memory", c.cgroup, "kubepods", class, "pod"+podUID, container)
		err := filepath.WalkDir(top, func(path string, d os.DirEntry, err error) error {
			if errors.Is(err, os.ErrNotExist) {
				return nil
			}
			if err != nil || d.Name() != "cgroup.procs" {
				return err
			}
			text, err := os.ReadFile(path)
			if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENODEV) {
				return nil // it went meanwhile
			}
			for line := range strings.FieldsSeq(string(text)) {
				if pid, err := strconv.Atoi(line); err == nil && pid > 0 {
					all = append(all, pid)
				}
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// run starts a program that ends with this process.
func (c *Cluster) run(log string, namespaces uintptr, program string, args ...string) (*exec.Cmd, error) {
	out, err := os.Create(filepath.Join(c.dir, log))
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Cloneflags: namespaces}
	return cmd, deathsig.Start(cmd, syscall.SIGKILL)
}

// prepare writes what containerd and its plugins read, the images, and the groups.
func (c *Cluster) prepare(made string, images []Image) error {
	for _, d := range []string{"images", "cni.d"} {
		if err := os.Mkdir(filepath.Join(c.dir, d), 0o755); err != nil {
			return err
		}
	}
	images = append(images, Image{Name: pauseImage, Entrypoint: []string{"/pause"}, Files: map[string]string{"/pause": filepath.Join(made, "pause")}})
	for _, i := range images {
		if err := i.write(filepath.Join(c.dir, "images")); err != nil {
			return fmt.Errorf("image %s: %w", i.Name, err)
		}
	}
	subnet, err := freeSubnet(c.subnet)
	if err != nil {
		return err
	}
	c.subnet = subnet
	network, err := json.Marshal(map[string]any{"cniVersion": "0.4.0", "name": strings.ReplaceAll(c.cgroup, "/", "-"), "plugins": []any{map[string]any{"type": "ptp", "ipMasq": false,
		"ipam": map[string]any{"type": "host-local", "dataDir": filepath.Join(c.dir, "cni"), "ranges": [][]map[string]string{{{"subnet": subnet}}}}}}})
	if err != nil {
		return err
	}
	engine := strings.NewReplacer("DIR", c.dir, "PAUSE", pauseImage, "PLUGINS", filepath.Join(made, "cni")).Replace(containerdConfig)
	return errors.Join(os.WriteFile(filepath.Join(c.dir, "cni.d", "10-ptp.conflist"), network, 0o600),
		os.WriteFile(filepath.Join(c.dir, "containerd.toml"), []byte(engine), 0o600), makeGroups(c.cgroup))
}

const pauseImage = "docker.io/tare/pause:1"

// containerdConfig has containerd keep all that it makes below DIR.
const containerdConfig = `version = 2
root = "DIR/containerd"
state = "/run/containerd/state"
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.tracing.processor.v1.otlp"]
[grpc]
  address = "DIR/c.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "DIR/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "PAUSE"
  disable_apparmor = true
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  stream_server_address = "127.0.0.1"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "PLUGINS"
    conf_dir = "DIR/cni.d"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
      Root = "/run/containerd/runc"
`

// await waits until pods can be made.
func (c *Cluster) await() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		ready, err := c.Run(ctx, "", "get", "node", c.Node, "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status}`)
		if err == nil && ready == "True" {
			if _, err = c.Run(ctx, "", "get", "serviceaccount", "default"); err == nil {
				return nil
			}
		}
		for _, cmd := range []*exec.Cmd{c.plane, c.node} {
			if unix.Kill(cmd.Process.Pid, 0) != nil {
				return fmt.Errorf("%s has ended", cmd.Args[1])
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("not ready after %s: %q, %w", startTime, ready, err)
		}
	}
}

// Run runs kubectl as the administrator, with in as its standard input, and returns what
// it prints.
func (c *Cluster) Run(ctx context.Context, in string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "kubectl", append([]string{"--kubeconfig", c.Kubeconfig, "--cache-dir", filepath.Join(c.dir, "kubectl")}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(in), &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, errs.String())
	}
	return strings.TrimSpace(out.String()), nil
}

// Kubectl runs kubectl as the administrator, and fails the test if that fails.
func (c *Cluster) Kubectl(t testing.TB, args ...string) string {
	t.Helper()
	out, err := c.Run(t.Context(), "", args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Apply has the API server take manifests.
func (c *Cluster) Apply(t testing.TB, manifests string) {
	t.Helper()
	if _, err := c.Run(t.Context(), manifests, "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
}

// Account is the kubeconfig of an account that has the rights of some rules (YAML) in the
// namespace default, until the test ends. There is one at a time.
func (c *Cluster) Account(t testing.TB, rules string) string {
	t.Helper()
	c.Apply(t, `
apiVersion: v1
kind: ServiceAccount
metadata: {name: little}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: little}
rules: [`+rules+`]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: little}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: little}
subjects: [{kind: ServiceAccount, name: little}]
`)
	t.Cleanup(func() {
		if out, err := c.Run(context.Background(), "", "delete", "serviceaccount,role,rolebinding", "little"); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	text, err := os.ReadFile(c.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	before, after, _ := strings.Cut(string(text), "user: {client-certificate:")
	_, rest, _ := strings.Cut(after, "}}]")
	config := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(config, []byte(before+"user: {token: "+c.Kubectl(t, "create", "token", "little")+"}}]"+rest), 0o600); err != nil {
		t.Fatal(err)
	}
	return config
}

// Until waits until kubectl prints what is wanted.
func (c *Cluster) Until(t testing.TB, want string, args ...string) {
	t.Helper()
	polltest.UntilNil(t, func() error {
		out, err := c.Run(t.Context(), "", args...)
		if err == nil && out != want {
			err = fmt.Errorf("kubectl %s prints %q, want %q", strings.Join(args, " "), out, want)
		}
		return err
	})
}

// Close ends everything: the node's first process takes all others, and their mounts,
// with it.
func (c *Cluster) Close() error {
	nodes := []*exec.Cmd{c.node}
	if c.second != nil {
		nodes = append(nodes, c.second.node)
	}
	for _, cmd := range append(nodes, c.plane) {
		if cmd != nil && cmd.Process != nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}
	if c.lock == nil {
		return nil
	}
	return errors.Join(remove(c.dir), c.lock.Close())
}

// logs are the ends of the logs of all parts.
func (c *Cluster) logs() string {
	var b strings.Builder
	for _, name := range []string{"control-plane.log", "node.log", "containerd.log", "kubelet.log"} {
		text, err := os.ReadFile(filepath.Join(c.dir, name))
		if err == nil {
			fmt.Fprintf(&b, "\n%s: …%s", name, text[max(0, len(text)-4000):])
		}
	}
	return b.String()
}

// lockDir locks the folder of a cluster, which says that its owner lives; nil where
// somebody else has the lock.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		return nil, f.Close()
	case err != nil:
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// sweep removes what clusters left whose tests were killed.
func sweep() error {
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), prefix+"*"))
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		lock, lockErr := lockDir(dir)
		if lock != nil {
			lockErr = errors.Join(remove(dir), lock.Close())
		}
		err = errors.Join(err, lockErr)
	}
	return err
}

// remove removes the folder and the groups of a cluster, the processes of which have
// been killed.
func remove(dir string) error {
	var err error
	for end := time.Now().Add(endTime); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if err = removeGroups(filepath.Base(dir)); err == nil {
			break
		}
	}
	return errors.Join(err, os.RemoveAll(dir))
}

// podShares is the weight of all pods, where a process of the machine has 1024: with that
// they would all together get the time of one.
const podShares = "8192"

// makeGroups makes the group of the pods in all hierarchies of version 1.
func makeGroups(name string) error {
	controllers, err := filepath.Glob("/sys/fs/cgroup/*/cgroup.procs")
	if err != nil {
		return err
	}
	for _, file := range controllers {
		dir := filepath.Dir(file)
		if filepath.Base(dir) == "unified" {
			continue
		}
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
		for _, setting := range []string{"cpuset.cpus", "cpuset.mems", "cpu.shares"} {
			text, err := os.ReadFile(filepath.Join(dir, setting))
			if err != nil {
				continue // another controller's
			}
			if setting == "cpu.shares" {
				text = []byte(podShares)
			}
			if err := os.WriteFile(filepath.Join(dir, name, setting), text, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

func removeGroups(name string) error {
	tops, err := filepath.Glob("/sys/fs/cgroup/*/" + name)
	if err != nil {
		return err
	}
	for _, top := range tops {
		var below []string
		err := filepath.WalkDir(top, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				below = append(below, path)
			}
			return err
		})
		for i := len(below) - 1; i >= 0 && err == nil; i-- {
			err = os.Remove(below[i])
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

func freePorts() (ports, error) {
	var all [4]int
	for i := range all {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return ports{}, err
		}
		defer l.Close()
		all[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports{all[0], all[1], all[2], all[3]}, nil
}

// freeSubnet is one for the pods that no interface of this machine is in, and not that of
// another node.
func freeSubnet(others string) (string, error) {
	used, err := net.InterfaceAddrs()
	if err != nil {
		return "", err
	}
	first := os.Getpid() % 200
	for i := range 200 {
		base := fmt.Sprintf("10.243.%d.0", (first+i)%200+20)
		taken := false
		for _, a := range used {
			n, ok := a.(*net.IPNet)
			taken = taken || ok && (n.Contains(net.ParseIP(base)) || strings.HasPrefix(n.IP.String(), strings.TrimSuffix(base, "0")))
		}
		if !taken && base+"/24" != others {
			return base + "/24", nil
		}
	}
	return "", errors.New("no subnet is free for pods")
}
