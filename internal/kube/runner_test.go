package kube

import (
	"errors"
	"testing"

	"tare.dev/tare/internal/kubeapi"
)

// An answer is an answer, whatever it says; who cannot answer now is asked again.
func TestAway(t *testing.T) {
	for err, want := range map[error]bool{
		errors.New("connection refused"): true, &kubeapi.StatusError{Code: 503}: true, &kubeapi.StatusError{Code: 429}: true,
		&kubeapi.StatusError{Code: 500}: false, &kubeapi.StatusError{Code: 403}: false, &kubeapi.StatusError{Code: 409}: false,
	} {
		if away(err) != want {
			t.Errorf("%v: away %v", err, !want)
		}
	}
	tries := 0
	err := insist(t.Context(), func() error { tries++; return &kubeapi.StatusError{Code: 403} })
	if tries != 1 || !kubeapi.IsCode(err, 403) {
		t.Errorf("%d tries, %v", tries, err)
	}
}
