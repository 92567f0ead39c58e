package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/runner"
)

// Place is where a run is made: on this machine, or in an image, whose paths
// and environment these then are.
type Place struct {
	Runner runner.Runner
	Java   fit.Java
	// Dir is the folder that relative paths start from.
	Dir string
	// Env is the environment without the run's own.
	Env []string
	// Image is the digest of the image, "" on this machine.
	Image string
}

// on is the image or the build of the JDK that runs there.
func (p Place) on() string { return cmp.Or(p.Image, p.Java.Build) }

// placeName tells the places of an experiment apart.
type placeName struct{ jdk, image string }

func (r Run) place() placeName { return placeName{string(r.JDK), string(r.Image)} }

// checkPlace says what of a run does not go together.
func (r Run) checkPlace() error {
	switch {
	case r.Runner != "" && r.Runner != "cgroup" && r.Runner != "docker":
		return fmt.Errorf("runner %q: give cgroup or docker", r.Runner)
	case (r.Runner == "docker") != (r.Image != ""):
		return errors.New("runner: docker and image go together: give both")
	case r.Image != "" && r.JDK != "":
		return errors.New("the JDK is the image's: leave out jdk")
	case r.Image != "" && r.Train != nil:
		return errors.New("no class archive is made in images: leave out train, or runner and image")
	case r.Image != "" && r.Machine != nil:
		return errors.New("a virtual machine has no Docker Engine: leave out machine, or runner and image")
	}
	return nil
}

// findPlaces finds all launchers and images before anything runs.
func (l *Lab) findPlaces(ctx context.Context) (map[placeName]Place, error) {
	places := map[placeName]Place{}
	for _, c := range l.Experiment.Cells() {
		name := c.Run.place()
		if _, ok := places[name]; ok {
			continue
		}
		at, err := l.findPlace(ctx, name)
		if err != nil {
			return nil, err
		}
		places[name] = at
	}
	return places, nil
}

func (l *Lab) findPlace(ctx context.Context, name placeName) (Place, error) {
	if name.image != "" {
		return l.Image(ctx, name.image)
	}
	java, err := l.Java(ctx, name.jdk)
	return Place{Runner: l.Runner, Java: java, Dir: l.Dir, Env: os.Environ()}, err
}
