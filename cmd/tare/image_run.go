package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"tare.dev/tare/internal/docker"
)

// runFlags are the flags of docker run that a fit of an image takes.
type runFlags struct {
	run      docker.Run
	publish  []string
	envFiles []string
}

func (r *runFlags) addFlags(f *pflag.FlagSet) {
	f.StringArrayVarP(&r.run.Volumes, "volume", "v", nil, "as of docker run: `SOURCE:TARGET`[:ro]; repeatable. All trials share it")
	f.StringArrayVarP(&r.publish, "publish", "p", nil, "as of docker run: `PORT:PORT`, of the loopback where no address stands before it; repeatable. The container is in the network bridge then")
	f.StringVar(&r.run.Network, "network", "", "a `network` of the engine (default: the machine's own)")
	f.StringArrayVar(&r.run.Tmpfs, "tmpfs", nil, "as of docker run: `TARGET`[:size=64m]; repeatable. What is in it counts to the limit")
	f.StringVar(&r.run.User, "user", "", "user or `UID[:GID]` instead of the image's")
	f.BoolVar(&r.run.ReadOnly, "read-only", false, "the image's files cannot be written")
	f.StringArrayVar(&r.envFiles, "env-file", nil, "`file` of NAME=VALUE lines for the application; repeatable")
}

// given says whether any of them was given.
func (r *runFlags) given() bool { return len(r.run.Flags())+len(r.publish) > 0 }

// check reads the flags; dir is the working folder, inImage says that there is an image.
func (r *runFlags) check(inImage bool, dir string) error {
	if r.given() && !inImage {
		return errors.New("--volume, --publish, --network, --tmpfs, --user and --read-only are for --image: leave them out")
	}
	r.run.Ports = nil
	for _, text := range r.publish {
		p, err := docker.ParsePort(text)
		if err != nil {
			return fmt.Errorf("--publish: %w", err)
		}
		r.run.Ports = append(r.run.Ports, p)
	}
	return r.run.Check(dir)
}

// readEnvFile reads lines as --env-file of docker run does: NAME=VALUE, NAME for the
// value that it has here, and remarks that begin with #.
func readEnvFile(name string) ([]string, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("--env-file: %w", err)
	}
	defer f.Close()
	var out []string
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimLeft(lines.Text(), " \t")
		variable, _, hasValue := strings.Cut(line, "=")
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
			continue
		case variable == "" || strings.ContainsAny(variable, " \t"):
			return nil, fmt.Errorf("--env-file %s:%d: no NAME=VALUE", name, n)
		case !hasValue:
			value, ok := os.LookupEnv(variable)
			if !ok {
				continue
			}
			line = variable + "=" + value
		}
		out = append(out, line)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("--env-file %s: %w", name, err)
	}
	return out, nil
}

// withEnvFiles are the variables of files and then those of --env, which win.
func (r *runFlags) withEnvFiles(env []string) ([]string, error) {
	var all []string
	for _, name := range r.envFiles {
		more, err := readEnvFile(name)
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	return append(all, env...), nil
}
