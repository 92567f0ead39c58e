// Package kubeapi speaks with the API server of a Kubernetes cluster: plain JSON over
// HTTPS, with the few parts of its objects that tare reads. A typed client would cost
// every command the registration of all kinds at its start.
package kubeapi

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml"
)

// Config says where an API server is, and who asks.
type Config struct {
	// Server is its URL; CA the PEM certificates that its own is signed with, the system's
	// when it is empty. ServerName is the name in its certificate, where that is another.
	Server, ServerName string
	CA                 []byte
	Insecure           bool
	// ProxyURL is an HTTP proxy; "" is that of the environment.
	ProxyURL string
	// Token, TokenFile, Cert with Key, Username with Password, or Exec say who asks.
	// A TokenFile is read again for each request: the kubelet renews it.
	Token, TokenFile   string
	Cert, Key          []byte
	Username, Password string
	Exec               *Exec
	// Namespace is the one where none is given.
	Namespace string
}

// Exec is a program that gives credentials (client.authentication.k8s.io/v1).
type Exec struct {
	APIVersion string    `yaml:"apiVersion"`
	Command    string    `yaml:"command"`
	Args       []string  `yaml:"args"`
	Env        []nameVal `yaml:"env"`
}

type nameVal struct {
	Name  string `yaml:"name"`
	Value string `yaml:"value"`
}

// ErrNoConfig says that there is neither a kubeconfig nor a pod around.
var ErrNoConfig = errors.New("no cluster is known: give --kubeconfig FILE, or set KUBECONFIG")

// Options choose a cluster, as kubectl's flags do.
type Options struct{ Kubeconfig, Context, Namespace string }

// Load finds the configuration: the file of the options, those of KUBECONFIG,
// ~/.kube/config, and else what a pod is given.
func Load(o Options) (*Config, error) {
	files := filepath.SplitList(os.Getenv("KUBECONFIG"))
	named := o.Kubeconfig != "" || len(files) > 0
	switch {
	case o.Kubeconfig != "":
		files = []string{o.Kubeconfig}
	case !named:
		if home, err := os.UserHomeDir(); err == nil {
			files = []string{filepath.Join(home, ".kube", "config")}
		}
	}
	c, err := loadFiles(files, o.Context)
	if errors.Is(err, ErrNoConfig) && !named {
		c, err = InCluster()
	}
	if err != nil {
		return nil, err
	}
	if o.Namespace != "" {
		c.Namespace = o.Namespace
	}
	if c.Namespace == "" {
		c.Namespace = "default"
	}
	return c, nil
}

// serviceAccount is where the kubelet puts what a pod needs to ask the API server
// (https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/).
const serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount"

// InCluster is the configuration of a pod. The error is ErrNoConfig outside of one.
func InCluster() (*Config, error) {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil, ErrNoConfig
	}
	ca, err := readBounded(serviceAccount + "/ca.crt")
	if err != nil {
		return nil, fmt.Errorf("the pod's service account: %w", err)
	}
	namespace, _ := readBounded(serviceAccount + "/namespace")
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return &Config{Server: "https://" + host + ":" + port, CA: ca, TokenFile: serviceAccount + "/token", Namespace: strings.TrimSpace(string(namespace))}, nil
}

// maxFile bounds a configuration file, and each file that it names.
const maxFile = 4 << 20

func readBounded(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s: more than %d MiB", name, maxFile>>20)
	}
	return text, err
}

// kubeconfig is a configuration file (https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/).
type kubeconfig struct {
	Current  string `yaml:"current-context"`
	Clusters []struct {
		Name    string `yaml:"name"`
		Cluster struct {
			Server   string `yaml:"server"`
			Name     string `yaml:"tls-server-name"`
			CAFile   string `yaml:"certificate-authority"`
			CAData   string `yaml:"certificate-authority-data"`
			Insecure bool   `yaml:"insecure-skip-tls-verify"`
			ProxyURL string `yaml:"proxy-url"`
		} `yaml:"cluster"`
	} `yaml:"clusters"`
	Users []struct {
		Name string `yaml:"name"`
		User user   `yaml:"user"`
	} `yaml:"users"`
	Contexts []struct {
		Name    string `yaml:"name"`
		Context struct {
			Cluster   string `yaml:"cluster"`
			User      string `yaml:"user"`
			Namespace string `yaml:"namespace"`
		} `yaml:"context"`
	} `yaml:"contexts"`
}

type user struct {
	Token     string `yaml:"token"`
	TokenFile string `yaml:"tokenFile"`
	CertFile  string `yaml:"client-certificate"`
	CertData  string `yaml:"client-certificate-data"`
	KeyFile   string `yaml:"client-key"`
	KeyData   string `yaml:"client-key-data"`
	Username  string `yaml:"username"`
	Password  string `yaml:"password"`
	Exec      *Exec  `yaml:"exec"`
	Provider  any    `yaml:"auth-provider"`
}

// loadFiles joins files: of two things of one name the first counts.
func loadFiles(files []string, context string) (*Config, error) {
	var all kubeconfig
	found := false
	for _, name := range files {
		text, err := readBounded(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("kubeconfig: %w", err)
		}
		one, err := parse(text)
		if err != nil {
			return nil, fmt.Errorf("kubeconfig %s: %w", name, err)
		}
		one.absolute(filepath.Dir(name))
		found = true
		if all.Current == "" {
			all.Current = one.Current
		}
		all.Clusters = append(all.Clusters, one.Clusters...)
		all.Users = append(all.Users, one.Users...)
		all.Contexts = append(all.Contexts, one.Contexts...)
	}
	if !found {
		return nil, ErrNoConfig
	}
	if context == "" {
		context = all.Current
	}
	return all.choose(context)
}

func parse(text []byte) (*kubeconfig, error) {
	var k kubeconfig
	if err := yaml.UnmarshalContext(context.Background(), text, &k); err != nil {
		return nil, fmt.Errorf("not YAML as kubectl writes it: %.200q", err.Error())
	}
	return &k, nil
}

// absolute makes the names of files relative to the folder of the configuration.
func (k *kubeconfig) absolute(dir string) {
	abs := func(name *string) {
		if *name != "" && !filepath.IsAbs(*name) {
			*name = filepath.Join(dir, *name)
		}
	}
	for i := range k.Clusters {
		abs(&k.Clusters[i].Cluster.CAFile)
	}
	for i := range k.Users {
		u := &k.Users[i].User
		abs(&u.TokenFile)
		abs(&u.CertFile)
		abs(&u.KeyFile)
		if u.Exec != nil && strings.Contains(u.Exec.Command, "/") {
			abs(&u.Exec.Command)
		}
	}
}

// choose makes the configuration of a context.
func (k *kubeconfig) choose(name string) (*Config, error) {
	c := &Config{}
	cluster, who := "", ""
	known := false
	for _, x := range k.Contexts {
		if x.Name == name && !known {
			known, cluster, who, c.Namespace = true, x.Context.Cluster, x.Context.User, x.Context.Namespace
		}
	}
	if !known {
		return nil, fmt.Errorf("kubeconfig has no context %.100q: list them with kubectl config get-contexts", name)
	}
	for _, x := range k.Clusters {
		if x.Name != cluster {
			continue
		}
		c.Server, c.ServerName, c.Insecure, c.ProxyURL = x.Cluster.Server, x.Cluster.Name, x.Cluster.Insecure, x.Cluster.ProxyURL
		var err error
		if c.CA, err = dataOr(x.Cluster.CAData, x.Cluster.CAFile); err != nil {
			return nil, err
		}
		break
	}
	if c.Server == "" {
		return nil, fmt.Errorf("kubeconfig has no cluster %.100q with a server", cluster)
	}
	for _, x := range k.Users {
		if x.Name == who {
			return c, x.User.into(c)
		}
	}
	return c, nil
}

func (u *user) into(c *Config) (err error) {
	if u.Provider != nil && u.Exec == nil && u.Token == "" {
		return errors.New("kubeconfig asks for an auth-provider, which Kubernetes has given up: use exec or a token")
	}
	c.Token, c.TokenFile, c.Username, c.Password, c.Exec = u.Token, u.TokenFile, u.Username, u.Password, u.Exec
	if c.Cert, err = dataOr(u.CertData, u.CertFile); err != nil {
		return err
	}
	c.Key, err = dataOr(u.KeyData, u.KeyFile)
	return err
}

// dataOr decodes what is given as data, or else reads the file.
func dataOr(data, file string) ([]byte, error) {
	if data != "" {
		out, err := base64.StdEncoding.DecodeString(data)
		if err != nil {
			return nil, errors.New("kubeconfig: data that is not base64")
		}
		return out, nil
	}
	if file == "" {
		return nil, nil
	}
	return readBounded(file)
}
