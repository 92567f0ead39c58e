package shell

import (
	"os/exec"
	"strings"
	"testing"
)

func TestCommand(t *testing.T) {
	got := Command([]string{"A=b c", "B="}, []string{"/opt/java", "-Dx='$(id)'", "", "a;b"})
	if want := `A='b c' B='' /opt/java '-Dx='\''$(id)'\''' '' 'a;b'`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := Words([]string{"a", "b c"}); got != "a 'b c'" {
		t.Error(got)
	}
}

// A real shell reads the very text, as a word and as the value of a variable.
func FuzzQuote(f *testing.F) {
	f.Add("it's $HOME `x` \"y\" \\ \n")
	f.Add("~")
	f.Fuzz(func(t *testing.T, s string) {
		if strings.Contains(s, "\x00") {
			return
		}
		for _, script := range []string{"printf %s " + Quote(s), Assign("VALUE="+s) + " sh -c 'printf %s \"$VALUE\"'"} {
			out, err := exec.Command("sh", "-c", script).Output()
			if err != nil || string(out) != s {
				t.Errorf("%q became %q, %v", s, out, err)
			}
		}
	})
}
