package wait_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/internal/wait"
)

// A recorder is a test that notes why it failed.
type recorder struct {
	testing.TB
	failed string
}

func (*recorder) Helper() {}

func (r *recorder) Fatalf(format string, args ...any) {
	r.failed = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// why runs what a test does, on fake time, and returns why it failed and how long it took.
func why(t *testing.T, test func(testing.TB)) (failed string, took time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{TB: t}
		started, ended := time.Now(), make(chan bool)
		go func() {
			defer close(ended)
			test(r)
		}()
		<-ended
		failed, took = r.failed, time.Since(started)
	})
	return failed, took
}

func TestWhatNeverComesFailsAtTheLimit(t *testing.T) {
	for name, test := range map[string]func(testing.TB){
		"For":     func(tb testing.TB) { wait.For(tb, "the end of time", func() bool { return false }) },
		"Receive": func(tb testing.TB) { wait.Receive(tb, "the end of time", make(chan int)) },
	} {
		failed, took := why(t, test)
		if !strings.Contains(failed, "the end of time") || !strings.Contains(failed, "goroutine ") {
			t.Errorf("%s failed with %q", name, failed)
		}
		if took < wait.Limit || took > wait.Limit+time.Second {
			t.Errorf("%s failed after %v", name, took)
		}
	}
}

func TestWhatComesDoesNotFail(t *testing.T) {
	asked, got := 0, 0
	failed, took := why(t, func(tb testing.TB) {
		wait.For(tb, "the third time", func() bool { asked++; return asked == 3 })
		ch := make(chan int, 1)
		ch <- 7
		got = wait.Receive(tb, "seven", ch)
	})
	if failed != "" || asked != 3 || got != 7 || took > time.Second {
		t.Errorf("failed with %q after %v: asked %d times, got %d", failed, took, asked, got)
	}
}
