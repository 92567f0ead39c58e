package main

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"tare.dev/tare/internal/store"
	"tare.dev/tare/internal/testkit/pgtest"
	"tare.dev/tare/internal/testkit/storetest"
)

// keepFits stores two fits that were cut off and leaves one running.
func keepFits(t *testing.T, location string) {
	t.Helper()
	s := storetest.Open(t, location)
	for number := range 3 {
		r, err := s.Begin(t.Context(), storetest.Plan(), store.Invocation{})
		if err == nil {
			err = r.Keep(t.Context(), storetest.Step(1))
		}
		if err == nil && number < 2 {
			err = r.Close()
		} else if err == nil {
			t.Cleanup(func() { r.Close() })
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestFitHistory(t *testing.T) {
	server := pgtest.Start(t)
	for name, location := range map[string]string{"file": filepath.Join(t.TempDir(), "tare.db"), "PostgreSQL": server.Database(t)} {
		t.Run(name, func(t *testing.T) {
			keepFits(t, location)
			t.Setenv(storeVariable, location)
			for _, c := range []struct {
				args   []string
				code   int
				output string
			}{
				{[]string{"list"}, exitOK, "running"},
				{[]string{"show", "1"}, exitOK, "fit 1 was cut off after 1 trials"},
				{[]string{"delete", "1", "3"}, exitUsage, "fit 3 is running in another tare: nothing was deleted"},
				{[]string{"delete", "1", "9"}, exitTarget, "no such fit: 9"},
				{[]string{"delete"}, exitUsage, "give the numbers of fits"},
				{[]string{"delete", "x"}, exitUsage, `"x" is no fit's number`},
				{[]string{"delete", "1", "1"}, exitOK, "deleted 1 of the fits in "},
				{[]string{"show", "1"}, exitTarget, "no such fit: 1"},
				{[]string{"list", "--json"}, exitOK, `"host": "`},
			} {
				code, out, errs := fitRun(t.Context(), c.args)
				if code != c.code || !strings.Contains(out+errs, c.output) {
					t.Errorf("%q: %d\n%s%s", c.args, code, out, errs)
				}
				if strings.Contains(out+errs, server.Password()) {
					t.Errorf("%q prints the password:\n%s%s", c.args, out, errs)
				}
			}
		})
	}
}

// Another host's fit is listed with its host, and cannot go on here.
func TestAnotherHostsFit(t *testing.T) {
	server := pgtest.Start(t)
	location := server.Database(t)
	s := storetest.Open(t, location)
	r, err := s.Begin(t.Context(), storetest.Plan(), store.Invocation{})
	if err == nil {
		err = errors.Join(r.Keep(t.Context(), storetest.Step(1)), r.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	server.Exec(t, location[strings.LastIndex(location, "/")+1:], "UPDATE fits SET host = 'another'")
	if _, out, errs := fitRun(t.Context(), []string{"list", "--store", location}); !strings.Contains(out, "on another: java") || strings.Contains(out, "--resume") {
		t.Errorf("%s%s", out, errs)
	}
	if code, _, errs := fitRun(t.Context(), []string{"--store", location, "--resume", "1"}); code != exitUsage || !strings.Contains(errs, "fit 1 was started on another: go on with it there") {
		t.Errorf("%d: %s", code, errs)
	}
}
