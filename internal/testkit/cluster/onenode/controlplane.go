package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"go.etcd.io/etcd/server/v3/embed"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	cliflag "k8s.io/component-base/cli/flag"
	logsapi "k8s.io/component-base/logs/api/v1"
	apiserverapp "k8s.io/kubernetes/cmd/kube-apiserver/app"
	apiserveropts "k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	kcmapp "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	kcmopts "k8s.io/kubernetes/cmd/kube-controller-manager/app/options"
	schedapp "k8s.io/kubernetes/cmd/kube-scheduler/app"
	schedopts "k8s.io/kubernetes/cmd/kube-scheduler/app/options"
)

func parse(name string, nfs cliflag.NamedFlagSets, args []string) error {
	fs := pflag.NewFlagSet(name, pflag.ContinueOnError)
	fs.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	for _, f := range nfs.FlagSets {
		fs.AddFlagSet(f)
	}
	return fs.Parse(args)
}

func startEtcd(dir string, port, peerPort int) (*embed.Etcd, error) {
	cfg := embed.NewConfig()
	cfg.Dir = filepath.Join(dir, "etcd")
	client := url.URL{Scheme: "http", Host: "127.0.0.1:" + strconv.Itoa(port)}
	peer := url.URL{Scheme: "http", Host: "127.0.0.1:" + strconv.Itoa(peerPort)}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.UnsafeNoFsync = true // a test cluster: nothing to keep
	cfg.LogLevel = "error"
	cfg.LogOutputs = []string{filepath.Join(dir, "etcd.log")}
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, err
	}
	select {
	case <-e.Server.ReadyNotify():
		return e, nil
	case err := <-e.Err():
		return nil, err
	case <-time.After(30 * time.Second):
		e.Close()
		return nil, errors.New("etcd not ready after 30s")
	}
}

// runControlPlane runs etcd, API server, controller manager and scheduler until a signal.
func runControlPlane(args []string) error {
	fl := flag.NewFlagSet("control-plane", flag.ExitOnError)
	dir := fl.String("dir", "", "state directory")
	port := fl.Int("port", 6443, "apiserver port on 127.0.0.1")
	etcdPort := fl.Int("etcd", 2379, "etcd client port on 127.0.0.1")
	peerPort := fl.Int("peer", 2380, "etcd peer port on 127.0.0.1")
	node := fl.String("node", "localhost", "node name the kubelet certificate is for")
	if err := fl.Parse(args); err != nil {
		return err
	}
	pki := filepath.Join(*dir, "pki")
	server := fmt.Sprintf("https://127.0.0.1:%d", *port)
	if err := makePKI(pki, server, *node); err != nil {
		return err
	}
	// All components share this process's feature gates and logging.
	logsapi.ReapplyHandling = logsapi.ReapplyHandlingIgnoreUnchanged
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()

	e, err := startEtcd(*dir, *etcdPort, *peerPort)
	if err != nil {
		return fmt.Errorf("etcd: %w", err)
	}
	defer e.Close()

	ends := make(chan error, 3)
	apiCtx, apiStop := context.WithCancel(context.Background())
	defer apiStop()
	api := component(ends, "apiserver", func() error { return runAPIServer(apiCtx, apiServerFlags(pki, *port, *etcdPort)) })
	if err := waitReady(ctx, server, pki, ends); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(*dir, "ready"), nil, 0o600); err != nil {
		return err
	}
	manager := component(ends, "controller-manager", func() error { return runKCM(ctx, managerFlags(pki)) })
	scheduler := component(ends, "scheduler", func() error { return runScheduler(ctx, clientFlags(pki, "scheduler.kubeconfig")) })
	select {
	case err := <-ends:
		if ctx.Err() == nil {
			return err
		}
	case <-ctx.Done():
	}
	// Controllers first, then the API server, then etcd.
	ended(manager, scheduler)
	apiStop()
	ended(api)
	return nil
}

// component runs one. Its error goes to ends, and done is closed at its end.
func component(ends chan<- error, name string, run func() error) (done chan struct{}) {
	done = make(chan struct{})
	go func() {
		defer close(done)
		ends <- fmt.Errorf("%s: %w", name, run())
	}()
	return done
}

// endTime is how long components have to end.
const endTime = 5 * time.Second

// ended waits for the ends of components, but no longer than endTime.
func ended(done ...chan struct{}) {
	late := time.After(endTime)
	for _, d := range done {
		select {
		case <-d:
		case <-late:
			return
		}
	}
}

func apiServerFlags(pki string, port, etcdPort int) []string {
	p := func(n string) string { return filepath.Join(pki, n) }
	return []string{
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--secure-port=" + strconv.Itoa(port),
		"--endpoint-reconciler-type=none", // a loopback advertise address is not allowed in Endpoints
		fmt.Sprintf("--etcd-servers=http://127.0.0.1:%d", etcdPort),
		"--cert-dir=" + pki, "--tls-cert-file=" + p("apiserver.crt"), "--tls-private-key-file=" + p("apiserver.key"),
		"--client-ca-file=" + p("ca.crt"),
		"--kubelet-client-certificate=" + p("kubelet-client.crt"), "--kubelet-client-key=" + p("kubelet-client.key"),
		"--kubelet-certificate-authority=" + p("ca.crt"), "--kubelet-preferred-address-types=Hostname",
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file=" + p("sa.pub"),
		"--service-account-signing-key-file=" + p("sa.key"),
		"--requestheader-client-ca-file=" + p("ca.crt"), "--requestheader-allowed-names=front-proxy-client",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-username-headers=X-Remote-User",
		"--proxy-client-cert-file=" + p("front-proxy.crt"), "--proxy-client-key-file=" + p("front-proxy.key"),
		"--service-cluster-ip-range=10.96.0.0/16", "--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction", "--allow-privileged=true", "--profiling=false",
		"--shutdown-delay-duration=0s", "--watch-cache=true",
	}
}

func managerFlags(pki string) []string {
	return append(clientFlags(pki, "kcm.kubeconfig"),
		"--use-service-account-credentials=true", "--kube-api-qps=500", "--kube-api-burst=1000",
		"--service-account-private-key-file="+filepath.Join(pki, "sa.key"), "--root-ca-file="+filepath.Join(pki, "ca.crt"),
		"--cluster-signing-cert-file="+filepath.Join(pki, "ca.crt"), "--cluster-signing-key-file="+filepath.Join(pki, "ca.key"),
		"--node-monitor-period=2s")
}

// clientFlags are those of a component that asks the API server as a user.
func clientFlags(pki, kubeconfig string) []string {
	config := filepath.Join(pki, kubeconfig)
	return []string{
		"--kubeconfig=" + config, "--authentication-kubeconfig=" + config, "--authorization-kubeconfig=" + config,
		"--bind-address=127.0.0.1", "--secure-port=0", "--leader-elect=false",
	}
}

func waitReady(ctx context.Context, server, pki string, ends chan error) error {
	crt, err := tls.LoadX509KeyPair(filepath.Join(pki, "admin.crt"), filepath.Join(pki, "admin.key"))
	if err != nil {
		return err
	}
	pem, err := os.ReadFile(filepath.Join(pki, "ca.crt"))
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	c := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{crt}}}}
	defer c.CloseIdleConnections()
	for dl := time.Now().Add(90 * time.Second); time.Now().Before(dl); {
		if r, err := c.Get(server + "/readyz"); err == nil {
			r.Body.Close()
			if r.StatusCode == 200 {
				return nil
			}
		}
		select {
		case err := <-ends:
			return err
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	return errors.New("apiserver not ready after 90s")
}

func runAPIServer(ctx context.Context, args []string) error {
	s := apiserveropts.NewServerRunOptions()
	if err := parse("kube-apiserver", s.Flags(), args); err != nil {
		return err
	}
	if err := s.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return err
	}
	o, err := s.Complete(ctx)
	if err != nil {
		return err
	}
	if errs := o.Validate(); len(errs) != 0 {
		return utilerrors.NewAggregate(errs)
	}
	return apiserverapp.Run(ctx, o)
}

func runKCM(ctx context.Context, args []string) error {
	s, err := kcmopts.NewKubeControllerManagerOptions()
	if err != nil {
		return err
	}
	nfs := s.Flags(kcmapp.KnownControllers(), kcmapp.ControllersDisabledByDefault(), kcmapp.ControllerAliases())
	s.ParsedFlags = &nfs
	if err := parse("kube-controller-manager", nfs, args); err != nil {
		return err
	}
	if err := s.ComponentGlobalsRegistry.Set(); err != nil {
		return err
	}
	c, err := s.Config(ctx, kcmapp.KnownControllers(), kcmapp.ControllersDisabledByDefault(), kcmapp.ControllerAliases())
	if err != nil {
		return err
	}
	return kcmapp.Run(ctx, c.Complete())
}

func runScheduler(ctx context.Context, args []string) error {
	o := schedopts.NewOptions()
	if err := parse("kube-scheduler", *o.Flags, args); err != nil {
		return err
	}
	cc, sched, err := schedapp.Setup(ctx, o)
	if err != nil {
		return err
	}
	return schedapp.Run(ctx, cc, sched)
}
