package compose

import (
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/compose-spec/compose-go/v2/types"

	"tare.dev/tare/internal/docker"
)

// Keys of a service, as the Compose Specification names them. One that is set and in
// none of these lists is refused.
var (
	// ignored have no bearing on what a service needs, or concern only those who run it for good.
	ignored = []string{"annotations", "attach", "container_name", "develop", "expose", "extends", "healthcheck", "label_file", "labels", "logging", "log_driver", "log_opt",
		"name", "oom_score_adj", "profiles", "pull_policy", "pull_refresh_after", "restart", "scale", "stdin_open", "stop_grace_period", "tty"}
	// ofApp are done for the service that is fitted. The fit sets its limits.
	ofApp = []string{"build", "command", "configs", "cpus", "cpuset", "cpu_shares", "deploy", "depends_on", "environment", "env_file", "image", "init", "mem_limit", "mem_reservation",
		"memswap_limit", "networks", "platform", "ports", "read_only", "secrets", "stop_signal", "tmpfs", "user", "volumes"}
	// ofOthers are done for services beside it, and those of ofApp too.
	ofOthers = []string{"cap_add", "cap_drop", "entrypoint", "extra_hosts", "group_add", "hostname", "security_opt", "shm_size", "sysctls", "ulimits", "working_dir"}
)

// instead is what to do for a key that is refused.
var instead = map[string]string{
	"entrypoint":   "put it into the image: tare exec goes before that",
	"working_dir":  "put it into the image",
	"network_mode": "leave it out: the services are in one network of their own",
	"provider":     "start it yourself, and give its address by --env",
}

// reader reads one service.
type reader struct {
	project *types.Project
	service types.ServiceConfig
	trial   Trial
	out     *Project
}

// check refuses what cannot be done.
func (r reader) check(app bool) error {
	for _, key := range set(reflect.ValueOf(r.service)) {
		known := slices.Contains(ignored, key) || slices.Contains(ofApp, key) || !app && slices.Contains(ofOthers, key)
		if known {
			continue
		}
		if next, ok := instead[key]; ok {
			return fmt.Errorf("%s: %w: %s", key, errNotHere, next)
		}
		return fmt.Errorf("%s: %w: leave it out in a file for tare", key, errNotHere)
	}
	if n := r.service.GetScale(); n != 1 {
		return fmt.Errorf("%d replicas: %w: one container of each service is started", n, errNotHere)
	}
	return nil
}

// set are the keys of a service that have a value.
func set(v reflect.Value) (keys []string) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		key, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case strings.HasPrefix(key, "#") || key == "-" || v.Field(i).IsZero():
		case strings.Contains(options, "inline"):
			keys = append(keys, set(v.Field(i))...)
		case (v.Field(i).Kind() == reflect.Slice || v.Field(i).Kind() == reflect.Map) && v.Field(i).Len() == 0 && key != "entrypoint":
		default:
			keys = append(keys, key)
		}
	}
	return keys
}

// read adds the service to the project.
func (r reader) read(app bool) error {
	run := docker.Run{User: r.service.User, ReadOnly: r.service.ReadOnly, Tmpfs: slices.Clone(r.service.Tmpfs), Aliases: r.aliases()}
	mounts, err := r.volumes(&run)
	if err != nil {
		return err
	}
	if err := r.files(&run); err != nil {
		return err
	}
	cpus, cpuset := r.cpus()
	after := map[string]Condition{}
	for name, d := range r.service.DependsOn {
		if _, ok := r.project.Services[name]; ok {
			after[name] = Condition(d.Condition)
		}
	}
	if app {
		if run.Ports, err = r.ports(); err != nil {
			return err
		}
		r.out.App = App{Name: r.service.Name, Image: r.image(), Args: r.service.Command, Env: r.env(), Run: run, Mounts: mounts, CPUs: cpus, Cpuset: cpuset, After: after, Trial: r.trial}
		return nil
	}
	s := Service{Name: r.service.Name, Mounts: mounts, After: after, Trial: r.trial}
	s.Spec = docker.Spec{Image: r.image(), Entrypoint: r.service.Entrypoint, Cmd: r.service.Command, Env: r.env(), Run: run, Cpuset: cpuset, MemoryBytes: r.memory()}
	if cpus > 0 {
		const period = 100 * time.Millisecond
		s.Spec.PeriodMicros, s.Spec.QuotaMicros = period.Microseconds(), int64(cpus*float64(period.Microseconds()))
	}
	s.Spec.Service = docker.Service{WorkingDir: r.service.WorkingDir, Hostname: r.service.Hostname, StopSignal: r.service.StopSignal, Healthcheck: r.health(), KeepLog: true, Host: r.host()}
	r.out.Others = append(r.out.Others, s)
	return nil
}

// image is the service's, or the one that docker compose build makes of it.
func (r reader) image() string {
	if r.service.Image != "" {
		return r.service.Image
	}
	return r.project.Name + "-" + r.service.Name
}

// env is the environment as the file has it; a variable without a value there is not set.
func (r reader) env() (env []string) {
	for _, name := range slices.Sorted(maps.Keys(r.service.Environment)) {
		if v := r.service.Environment[name]; v != nil {
			env = append(env, name+"="+*v)
		}
	}
	return env
}

// aliases are the names by which other services find this one.
func (r reader) aliases() []string {
	out := []string{r.service.Name}
	add := func(name string) {
		if name != "" && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	add(r.service.ContainerName)
	for _, n := range slices.Sorted(maps.Keys(r.service.Networks)) {
		if c := r.service.Networks[n]; c != nil {
			for _, a := range c.Aliases {
				add(a)
			}
		}
	}
	return out
}

// volumes sorts volumes into those of the project and what a container has otherwise.
func (r reader) volumes(run *docker.Run) (mounts []Mount, err error) {
	for _, v := range r.service.Volumes {
		switch v.Type {
		case types.VolumeTypeBind:
			run.Volumes = append(run.Volumes, bind(v.Source, v.Target, v.ReadOnly))
		case types.VolumeTypeTmpfs:
			text := v.Target
			if v.Tmpfs != nil && v.Tmpfs.Size > 0 {
				text += ":size=" + strconv.FormatInt(int64(v.Tmpfs.Size), 10)
			}
			run.Tmpfs = append(run.Tmpfs, text)
		case types.VolumeTypeVolume:
			if v.Source == "" {
				return nil, fmt.Errorf("volumes: %s: %w: give the volume a name", v.Target, errNotHere)
			}
			if v.Volume != nil && v.Volume.Subpath != "" {
				return nil, fmt.Errorf("volumes: subpath of %s: %w: mount the whole volume", v.Source, errNotHere)
			}
			c := r.project.Volumes[v.Source]
			if c.Driver != "" && c.Driver != "local" || len(c.DriverOpts) > 0 {
				return nil, fmt.Errorf("volume %s: driver and driver_opts: %w: leave them out, or make the volume external: it is copied then", v.Source, errNotHere)
			}
			volume := Volume{}
			if c.External {
				volume.External = c.Name
			}
			r.out.Volumes[v.Source] = volume
			mounts = append(mounts, Mount{v.Source, v.Target, v.ReadOnly})
		default:
			return nil, fmt.Errorf("volumes: type %.100q: %w: use bind, volume or tmpfs", v.Type, errNotHere)
		}
	}
	return mounts, nil
}

func bind(source, target string, readOnly bool) string {
	if readOnly {
		return source + ":" + target + ":ro"
	}
	return source + ":" + target
}

// files gives a container the secrets and configurations that are files.
func (r reader) files(run *docker.Run) error {
	add := func(kind, name, target, folder string, all map[string]types.FileObjectConfig) error {
		file := all[name].File
		if file == "" {
			return fmt.Errorf("%s %s: %w: only those of a file are", kind, name, errNotHere)
		}
		if target == "" {
			target = name
		}
		if !filepath.IsAbs(target) {
			target = folder + target
		}
		run.Volumes = append(run.Volumes, bind(file, target, true))
		return nil
	}
	all := map[string]types.FileObjectConfig{}
	for name, s := range r.project.Secrets {
		all[name] = types.FileObjectConfig(s)
	}
	for _, s := range r.service.Secrets {
		if err := add("secret", s.Source, s.Target, "/run/secrets/", all); err != nil {
			return err
		}
	}
	all = map[string]types.FileObjectConfig{}
	for name, c := range r.project.Configs {
		all[name] = types.FileObjectConfig(c)
	}
	for _, c := range r.service.Configs {
		if err := add("config", c.Source, c.Target, "/", all); err != nil {
			return err
		}
	}
	return nil
}

// ports are the published ones; without an address they are of the loopback.
func (r reader) ports() (out []docker.Port, err error) {
	for _, p := range r.service.Ports {
		text := p.Published + ":" + strconv.FormatUint(uint64(p.Target), 10) + "/" + p.Protocol
		if p.Published == "" {
			return nil, fmt.Errorf("ports: %d has no port of this machine: write it as %d:%d, or give --publish %d:%d", p.Target, p.Target, p.Target, p.Target, p.Target)
		}
		if p.HostIP != "" {
			text = p.HostIP + ":" + text
		}
		port, err := docker.ParsePort(text)
		if err != nil {
			return nil, fmt.Errorf("ports: %w", err)
		}
		out = append(out, port)
	}
	return out, nil
}

// cpus are the processors that the service may use.
func (r reader) cpus() (float64, string) {
	cpus := float64(r.service.CPUS)
	if d := r.service.Deploy; d != nil && d.Resources.Limits != nil && d.Resources.Limits.NanoCPUs > 0 {
		cpus = float64(d.Resources.Limits.NanoCPUs)
	}
	return cpus, r.service.CPUSet
}

// memory is the limit of a service beside the application.
func (r reader) memory() int64 {
	if d := r.service.Deploy; d != nil && d.Resources.Limits != nil && d.Resources.Limits.MemoryBytes > 0 {
		return int64(d.Resources.Limits.MemoryBytes)
	}
	return int64(r.service.MemLimit)
}

// health is the service's own check, nil where the image's holds.
func (r reader) health() *docker.Health {
	h := r.service.HealthCheck
	if h == nil {
		return nil
	}
	if h.Disable {
		return &docker.Health{Test: []string{"NONE"}}
	}
	out := &docker.Health{Test: h.Test}
	for to, d := range map[*time.Duration]*types.Duration{&out.Interval: h.Interval, &out.Timeout: h.Timeout, &out.StartPeriod: h.StartPeriod} {
		if d != nil {
			*to = time.Duration(*d)
		}
	}
	if h.Retries != nil {
		out.Retries = int(min(*h.Retries, 1000))
	}
	return out
}

// host is what the engine has apart from the rest of a container.
func (r reader) host() docker.HostConfig {
	s := r.service
	h := docker.HostConfig{CapAdd: s.CapAdd, CapDrop: s.CapDrop, GroupAdd: s.GroupAdd, SecurityOpt: s.SecurityOpt, Sysctls: s.Sysctls, ShmSize: int64(s.ShmSize), Init: s.Init,
		ExtraHosts: s.ExtraHosts.AsList(":")}
	for _, name := range slices.Sorted(maps.Keys(s.Ulimits)) {
		u := s.Ulimits[name]
		limit := docker.Ulimit{Name: name, Soft: int64(u.Soft), Hard: int64(u.Hard)}
		if u.Single != 0 {
			limit.Soft, limit.Hard = int64(u.Single), int64(u.Single)
		}
		h.Ulimits = append(h.Ulimits, limit)
	}
	return h
}
