// Package wait holds how long a test waits for something that ought to happen at once, and waits for it. Only tests
// import it.
package wait

import (
	"context"
	"runtime"
	"testing"
	"time"
)

// Limit is how long anything may take before a test says that it hangs. It is generous: on a machine that works, no test
// waits for it to pass.
const Limit = 2 * time.Minute

// For asks ok again and again until it holds. The test fails with what was waited for when it never does.
func For(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(Limit); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			fail(tb, what)
		}
	}
}

// fail says what every goroutine did meanwhile, which is where a hang shows.
func fail(tb testing.TB, what string) {
	tb.Helper()
	stacks := make([]byte, 1<<20)
	tb.Fatalf("waited in vain for %v: %s\n%s", Limit, what, stacks[:runtime.Stack(stacks, true)])
}

// Receive returns the next value of a channel. The test fails when none comes.
func Receive[T any](tb testing.TB, what string, ch <-chan T) T {
	tb.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(Limit):
		fail(tb, what)
		panic("not reached")
	}
}

// Context returns a context that ends with the test, or when the test hangs.
func Context(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), Limit)
	tb.Cleanup(cancel)
	return ctx
}
