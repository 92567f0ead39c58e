package main

import (
	"strings"
	"testing"

	"tare.dev/tare/internal/docker"
	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/testkit/dockertest"
)

// What tare says in a container is told in one line.
func TestAskImageFails(t *testing.T) {
	e := dockertest.Start(t)
	t.Setenv("DOCKER_HOST", e.Host)
	e.Import(t, "nothing", nil)
	var stderr strings.Builder
	d, err := openDocker(t.Context(), "nothing", docker.Run{}, &stderr)
	if err != nil || stderr.Len() > 0 {
		t.Fatal(err, stderr.String())
	}
	_, err = askImage(t.Context(), d, runner.InContainer, nil, imageEnv(d))
	if err == nil {
		t.Fatal("no error of a question for no command")
	}
	if text := err.Error(); !strings.HasPrefix(text, "looking for Java in the image: exit code 1: tare: ") || strings.HasSuffix(text, "\ufffd") {
		t.Errorf("error %q", text)
	}
	noContainers(t, e)
}
