package docker

import (
	"errors"
	"net/http"
	"testing"
)

func TestParseContainer(t *testing.T) {
	const id = "3f4e8a5b7c9d3f4e8a5b7c9d3f4e8a5b7c9d3f4e8a5b7c9d3f4e8a5b7c9d3f4e"
	c, err := parseContainer("web", http.StatusOK, []byte(`{"Id":"`+id+`","Name":"/web","State":{"Status":"running","Running":true,"Pid":4242}}`))
	if err != nil || c.ID != id || c.State.Pid != 4242 {
		t.Errorf("%+v, %v", c, err)
	}
	for text, want := range map[string]error{
		`{"Id":"` + id + `","State":{"Status":"exited","Running":false,"Pid":0}}`: ErrNotRunning,
		`{"Id":"` + id + `","State":{"Running":true,"Pid":-1}}`:                   nil,
		`{"Id":"","State":{"Running":true,"Pid":1}}`:                              nil,
		`[]`: nil,
		``:   nil,
	} {
		c, err := parseContainer("web", http.StatusOK, []byte(text))
		if err == nil {
			err = c.running("web")
		}
		if err == nil || want != nil && !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", text, err, want)
		}
	}
	if _, err := parseContainer("web", http.StatusNotFound, []byte(`{"message":"No such container: web"}`)); !errors.Is(err, ErrNoContainer) {
		t.Error(err)
	}
	if _, err := parseContainer("web", http.StatusInternalServerError, []byte("\x1b[2J{")); err == nil {
		t.Error("no error of an engine that fails")
	}
}

// Whatever an engine answers, a container has an id and a process, or it is an
// error.
func FuzzParseContainer(f *testing.F) {
	f.Add(200, []byte(`{"Id":"3f4e8a5b7c9d","State":{"Status":"running","Running":true,"Pid":4242}}`))
	f.Add(500, []byte(`{"message":"driver failed"}`))
	f.Fuzz(func(t *testing.T, status int, text []byte) {
		c, err := parseContainer("web", status, text)
		if err == nil && len(c.ID) < 12 || c.running("web") == nil && (c.State.Pid <= 0 || !c.State.Running) {
			t.Fatalf("%+v", c)
		}
	})
}
