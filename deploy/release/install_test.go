package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tare.dev/tare/internal/names"
	"tare.dev/tare/internal/testkit/jvmtest"
	"tare.dev/tare/internal/testkit/results"
)

var releasePage = flag.String("release.out", "", "write how long each way to install takes to this `file`")

var installBlock = regexp.MustCompile("(?ms)^## ([^\n]*)$|^```bash\n(.*?)^```")

// installs runs every block of bash of the pages in a fresh system each, where the host of
// the addresses is this test, and a service runs that the pages call shop.jar.
func installs(t *testing.T, root, out string) {
	fresh := rootOf(t, "fresh")
	jdk, err := filepath.EvalSymlinks(jvmtest.Home(t, 17))
	if err != nil {
		t.Fatal(err)
	}
	var rows strings.Builder
	blocks := 0
	for _, page := range []string{"README.md", "docs/install.md"} {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		title := ""
		for _, m := range installBlock.FindAllStringSubmatch(string(text), -1) {
			if m[1] != "" {
				title = m[1]
				continue
			}
			blocks++
			t.Run(filepath.Base(page)+"/"+title, func(t *testing.T) {
				cmd := inside(t, "page", map[string]string{"BLOCK": m[2], "ROOT": fresh, "RELEASE": out, "JDK": jdk, "SHOP": filepath.Join(root, "bin", "sysinfo.jar")})
				said, err := cmd.CombinedOutput()
				if err != nil {
					t.Fatalf("%v\n%s\n%s", err, m[2], said)
				}
				took := regexp.MustCompile(`(?m)^took (.*)$`).FindSubmatch(said)
				if took == nil || !bytes.Contains(said, []byte("= Rss")) || !bytes.Contains(said, []byte("Java heap")) {
					t.Fatalf("no footprint:\n%s", said)
				}
				d, _ := time.ParseDuration(string(took[1]))
				fmt.Fprintf(&rows, "| %s, %s | %.1f |\n", page, title, d.Seconds())
			})
		}
	}
	if blocks < 5 {
		t.Errorf("%d blocks of bash", blocks)
	}
	if *releasePage != "" && !t.Failed() {
		body := "From the first command to the first footprint of a running JVM, in the root file system of a fresh Debian each, by the commands as they stand on the pages. The files come over HTTPS from the machine itself, so no download of the network is in it. Goal: 120 s at most after the download, each way.\n\n| way | s |\n|---|---|\n" + rows.String() + "\nOne run of each. The rpm was installed by rpm in that same system: no Fedora was there.\n"
		if err := os.WriteFile(*releasePage, []byte(results.Text("From a release to a first result", "make bench-release", body)), 0o644); err != nil {
			t.Error(err)
		}
	}
}

// inFresh runs a block in a copy of a root file system, in namespaces of its own.
func inFresh(root, out, jdk, shop, block string) error {
	in, err := enter(root, false, [][2]string{{out, "release"}, {jdk, "opt/jdk"}, {shop, "opt/shop.jar"}})
	if err != nil {
		return err
	}
	if err := loopbackUp(); err != nil {
		return fmt.Errorf("the loopback: %w", err)
	}
	if err := serve(filepath.Join(in, "release"), in); err != nil {
		return err
	}
	java := exec.Command("/opt/jdk/bin/java", "-Xmx64m", "-jar", "/opt/shop.jar", "--port", "0")
	java.SysProcAttr, java.Dir = &syscall.SysProcAttr{Chroot: in}, "/"
	said, err := java.StdoutPipe()
	if err != nil {
		return err
	}
	if err := java.Start(); err != nil {
		return err
	}
	if _, err := said.Read(make([]byte, 1)); err != nil { // it says that it listens
		return fmt.Errorf("the service: %w", err)
	}
	start := time.Now()
	if err := runShell(in, block); err != nil {
		return err
	}
	fmt.Printf("\ntook %v\n", time.Since(start))
	return nil
}

// loopbackUp turns the loopback of a new network namespace on: netdevice(7).
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	flags, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	flags.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, flags)
}

// serve serves a release at the addresses that it will have, with a certificate that the
// system in root trusts.
func serve(release, root string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	host, _, _ := strings.Cut(strings.TrimPrefix(names.Downloads, "https://"), "/")
	cert := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, &key.PublicKey, key)
	if err != nil {
		return err
	}
	trusted, err := os.OpenFile(filepath.Join(root, "etc/ssl/certs/ca-certificates.crt"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	err = errors.Join(pem.Encode(trusted, &pem.Block{Type: "CERTIFICATE", Bytes: der}), trusted.Close(),
		os.WriteFile(filepath.Join(root, "etc/hosts"), []byte("127.0.0.1 localhost "+host+"\n"), 0o644))
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:443")
	if err != nil {
		return err
	}
	files, base := http.FileServer(http.Dir(release)), strings.TrimPrefix(names.Repository, "https://"+host)
	mux := http.NewServeMux()
	mux.Handle(base+"/releases/download/v"+names.Version+"/", http.StripPrefix(base+"/releases/download/v"+names.Version, files))
	mux.Handle(base+"/install.sh", http.StripPrefix(base, files))
	server := &http.Server{Handler: mux, TLSConfig: &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.ServeTLS(l, "", "") }()
	return nil
}

// installRefuses runs the installer on a release of which something is wrong: it says what,
// and installs nothing.
func installRefuses(t *testing.T, out string) {
	archive := "tare-" + names.Version + "-linux-" + runtime.GOARCH + ".tar.gz"
	for name, c := range map[string]struct {
		change  func(dir string) error
		version string
		want    string
	}{
		"damaged":    {func(dir string) error { return os.WriteFile(filepath.Join(dir, archive), []byte("no archive"), 0o644) }, names.Version, "has not the sum that SHA256SUMS says"},
		"no sum":     {func(dir string) error { return os.WriteFile(filepath.Join(dir, "SHA256SUMS"), nil, 0o644) }, names.Version, "has no sum of " + archive},
		"no version": {func(string) error { return nil }, "7.7.7", "there is no "},
		"bad name":   {func(string) error { return nil }, "../../etc", "is no version"},
	} {
		dir := t.TempDir()
		release := filepath.Join(dir, "v"+names.Version)
		err := os.Mkdir(release, 0o755)
		for _, file := range []string{archive, "SHA256SUMS"} {
			err = errors.Join(err, copyFile(filepath.Join(out, file), filepath.Join(release, file)))
		}
		if err := errors.Join(err, c.change(release)); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("sh", filepath.Join(out, "install.sh"))
		cmd.Env = append(os.Environ(), "TARE_DOWNLOADS="+dir, "TARE_VERSION="+c.version, "TARE_PREFIX="+filepath.Join(dir, "to"))
		said, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(said), c.want) || strings.Count(string(said), "install.sh: error:") != 1 {
			t.Errorf("%s: %v: %s", name, err, said)
		}
		if _, err := os.Stat(filepath.Join(dir, "to")); err == nil {
			t.Errorf("%s: something was installed", name)
		}
	}
}
