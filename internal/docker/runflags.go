package docker

import (
	"errors"
	"fmt"
	"net/netip"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Run is how containers are started, as the flags of docker run have it. The zero Run
// is a container with the machine's network and nothing more.
type Run struct {
	// Network is "" for the machine's own, else the name of one of the engine's.
	Network string `json:",omitempty"`
	// Aliases are names of the container in that network.
	Aliases []string `json:",omitempty"`
	// Volumes are as -v has them: SOURCE:TARGET or SOURCE:TARGET:MODE, where the
	// source is an absolute path or the name of a volume.
	Volumes []string `json:",omitempty"`
	// Tmpfs are as --tmpfs has them: TARGET or TARGET:OPTIONS.
	Tmpfs []string `json:",omitempty"`
	// Ports are published ones.
	Ports []Port `json:",omitempty"`
	// User is a name or number, with a group after a colon; "" is the image's.
	User string `json:",omitempty"`
	// ReadOnly makes the root file system read-only.
	ReadOnly bool `json:",omitempty"`
}

// Port is a port of a container that is one of this machine too.
type Port struct {
	HostIP              string
	HostPort, Container uint16
	Protocol            string // "tcp" or "udp"
}

// HostNetwork is the name of the machine's own network, and bridgeNetwork that of the
// one that containers are in by default.
const (
	HostNetwork   = "host"
	bridgeNetwork = "bridge"
	loopback      = "127.0.0.1"
)

// Shares says that containers have the machine's network.
func (r Run) Shares() bool { return r.network() == HostNetwork }

func (r Run) network() string {
	switch {
	case r.Network != "":
		return r.Network
	case len(r.Ports) > 0:
		return bridgeNetwork
	}
	return HostNetwork
}

// Flags are the flags of docker run that say the same.
func (r Run) Flags() []string {
	var out []string
	if r.Network != "" {
		out = append(out, "--network", r.Network)
	}
	for _, a := range r.Aliases {
		out = append(out, "--network-alias", a)
	}
	for _, v := range r.Volumes {
		out = append(out, "-v", v)
	}
	for _, t := range r.Tmpfs {
		out = append(out, "--tmpfs", t)
	}
	for _, p := range r.Ports {
		out = append(out, "-p", p.String())
	}
	if r.User != "" {
		out = append(out, "--user", r.User)
	}
	if r.ReadOnly {
		out = append(out, "--read-only")
	}
	return out
}

// String is as -p of docker run has it.
func (p Port) String() string {
	text := fmt.Sprintf("%s:%d:%d", p.HostIP, p.HostPort, p.Container)
	if p.Protocol != "tcp" {
		text += "/" + p.Protocol
	}
	return text
}

// ParsePort reads [IP:]PORT:PORT[/PROTOCOL], the machine's port first. Without an
// address it is one of the loopback: unlike docker run, no other machine reaches it.
func ParsePort(text string) (Port, error) {
	p := Port{HostIP: loopback, Protocol: "tcp"}
	rest, protocol, ok := strings.Cut(text, "/")
	if ok {
		p.Protocol = protocol
	}
	words := strings.Split(rest, ":")
	if len(words) == 3 {
		p.HostIP = words[0]
		words = words[1:]
	}
	_, err := netip.ParseAddr(p.HostIP)
	if err != nil || len(words) != 2 || p.Protocol != "tcp" && p.Protocol != "udp" {
		return p, fmt.Errorf("%.100q is no published port: write it as 8080:80 or 127.0.0.1:8080:80", text)
	}
	for i, to := range []*uint16{&p.HostPort, &p.Container} {
		n, err := strconv.ParseUint(words[i], 10, 16)
		if err != nil || n == 0 {
			return p, fmt.Errorf("%.100q is no published port: %.20q is none of 1 to 65535", text, words[i])
		}
		*to = uint16(n)
	}
	return p, nil
}

// Check refuses what the engine would misread; dir is what relative sources begin at.
func (r *Run) Check(dir string) error {
	for i, v := range r.Volumes {
		words := strings.Split(v, ":")
		if len(words) < 2 || len(words) > 3 || words[0] == "" || !path.IsAbs(words[1]) {
			return fmt.Errorf("%.100q is no volume: write it as /folder:/in/container, name:/in/container, with :ro after it where nothing is to be written", v)
		}
		if strings.HasPrefix(words[0], ".") {
			words[0] = filepath.Join(dir, words[0])
		}
		r.Volumes[i] = strings.Join(words, ":")
	}
	for _, t := range r.Tmpfs {
		if target, _, _ := strings.Cut(t, ":"); !path.IsAbs(target) {
			return fmt.Errorf("%.100q is no tmpfs: write it as /in/container or /in/container:size=64m", t)
		}
	}
	switch {
	case len(r.Ports) > 0 && r.Network == HostNetwork:
		return errors.New("with the network host every port is one of this machine: leave out the published ones, or name another network")
	case strings.HasPrefix(r.Network, "container:") || r.Network == "none":
		return fmt.Errorf("network %.100q: name one of the engine's, or leave it out for the machine's own", r.Network)
	}
	return nil
}

// set writes the flags into a request.
func (r Run) set(q *createRequest) {
	h := &q.HostConfig
	q.User, h.NetworkMode, h.Binds, h.ReadonlyRootfs = r.User, r.network(), slices.Clone(r.Volumes), r.ReadOnly
	if len(r.Aliases) > 0 {
		q.NetworkingConfig = &networkingConfig{map[string]endpoint{r.network(): {r.Aliases}}}
	}
	for _, t := range r.Tmpfs {
		target, options, _ := strings.Cut(t, ":")
		if h.Tmpfs == nil {
			h.Tmpfs = map[string]string{}
		}
		h.Tmpfs[target] = options
	}
	for _, p := range r.Ports {
		if h.PortBindings == nil {
			h.PortBindings, q.ExposedPorts = map[string][]portBinding{}, map[string]struct{}{}
		}
		name := fmt.Sprintf("%d/%s", p.Container, p.Protocol)
		q.ExposedPorts[name] = struct{}{}
		h.PortBindings[name] = append(h.PortBindings[name], portBinding{p.HostIP, strconv.Itoa(int(p.HostPort))})
	}
}

type portBinding struct {
	HostIP   string `json:"HostIp"`
	HostPort string
}
