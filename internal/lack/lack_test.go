package lack_test

import (
	"testing"

	"github.com/sonic-mux/terraform-provider-mux/internal/lack"
)

// A recorder is a test that only notes how it was ended.
type recorder struct {
	testing.TB
	ended string
}

func (*recorder) Helper()        {}
func (r *recorder) Fatal(...any) { r.ended += "failed" }
func (r *recorder) Skip(...any)  { r.ended += "skipped" }

func (r *recorder) end() string { defer func() { r.ended = "" }(); return r.ended }

func TestALackIsAFailureInCIOnly(t *testing.T) {
	for ci, want := range map[string]string{"true": "failed", "": "skipped", "false": "skipped"} {
		t.Setenv("CI", ci)
		r := &recorder{TB: t}
		// Fatal and Skip of a recorder return, so that of both only the first counts.
		if lack.Of(r, "x"); r.end()[:6] != want[:6] {
			t.Errorf("CI=%q: want %s", ci, want)
		}
		if lack.Program(r, "no such program", "make one"); r.end()[:6] != want[:6] {
			t.Errorf("CI=%q, a missing program: want %s", ci, want)
		}
		if path := lack.Program(r, "sh", ""); path == "" || r.end() != "" {
			t.Errorf("CI=%q: sh is at %q, ended", ci, path)
		}
	}
}
