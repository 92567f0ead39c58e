package applications

import "testing"

func TestAt(t *testing.T) {
	if got := at(80, "/a/b"); got != "http://127.0.0.1:80/a/b" {
		t.Error(got)
	}
	if got := at(80, "PUT /a"); got != "PUT http://127.0.0.1:80/a" {
		t.Error(got)
	}
}

func TestNamed(t *testing.T) {
	got := Named("keycloak", "sysinfo", "nothing")
	if len(got) != 2 || got[0].Name != "sysinfo" || got[1].Name != "Keycloak" {
		t.Errorf("%+v", got)
	}
}

// Each application can be asked where it runs.
func TestLoading(t *testing.T) {
	for _, a := range All {
		p := Place{JDK: "25", Cache: "/cache", Port: 8000, Second: 8001}
		ready, targets, err := a.Loading(p)
		if err != nil || ready.String() == "" || len(targets) != len(a.Targets) {
			t.Errorf("%s: %v, %v, %v", a.Name, ready, targets, err)
		}
	}
}
